// gather, scatter, index_add and similar operations. The indexed dim must be replicated. Along the other dims, index
// and operand must have the same layout. The operands of masked_scatter must be replicated, because the place of a
// source element depends on the data.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/op_rules.h"

namespace tpplan {
namespace {

struct IndexRow {
  bool gathers = false;      // reads at the index; the others write there
  bool by_rows = false;      // one index for each row; the others have one for each element
  bool index_first = false;  // arguments are (x, index, dim); of the others (x, dim, index)
};

constexpr auto kIndexRows = by_op<IndexRow>({
    {OpId::Gather, {.gathers = true}},
    {OpId::TakeAlongDim, {.gathers = true, .index_first = true}},
    {OpId::IndexSelect, {.gathers = true, .by_rows = true}},
    {OpId::IndexAdd, {.by_rows = true}},
    {OpId::IndexCopy, {.by_rows = true}},
});

struct IndexCall {
  const IndexRow& row;
  Operand x, index;
  std::optional<Operand> source;  // the written values, if they are a tensor
  size_t dim = 0;
};

// True if the operation is linear. scatter_reduce is so for sums and means only.
bool is_linear(const OpCall& call) {
  if (call.node.op != OpId::ScatterReduce) return true;
  const GraphArg* how = find_arg(call, 4, "reduce");
  const std::string_view reduce =
      how != nullptr && how->kind == ArgKind::Text ? std::string_view(call.graph.texts[how->id]) : std::string_view{};
  return reduce == "sum" || reduce == "mean";
}

// Combines layouts for an index of one dim, which must be that of the source's rows.
void combine_rows(OpCall& call, OpResult& result, const IndexCall& along, ValueLayout& out) {
  const std::vector<DimLayoutId>& by = along.index.layout->dims;
  const size_t dim = along.dim;
  if (along.row.gathers && dim < out.dims.size())
    out.dims[dim] = by.empty() ? replicated_dim(call.table.maps, 1) : by[0];
  for (size_t d = 0; d < out.dims.size(); ++d) {
    if (!along.source || d >= along.source->layout->dims.size()) continue;
    const DimLayoutId given = along.source->layout->dims[d];
    if (d != dim)
      out.dims[d] = join(call, result, along.x.layout->dims[d], given, false, fmt::format("dim {}", d));
    else if (!by.empty())
      join(call, result, by[0], given, false, fmt::format("dim {} of the source", d));
  }
}

// Combines layouts for an index with as many dims as the operand, which can be smaller along each.
void combine_elements(OpCall& call, OpResult& result, const IndexCall& along, ValueLayout& out) {
  for (size_t d = 0; d < out.dims.size() && d < along.index.layout->dims.size(); ++d) {
    const DimLayoutId dim_of_x = along.x.layout->dims[d];
    DimLayoutId by = along.index.layout->dims[d];
    if (along.source && d < along.source->layout->dims.size())
      by = join(call, result, by, along.source->layout->dims[d], false, fmt::format("dim {} of the source", d));
    if (d == along.dim) {
      if (along.row.gathers)
        out.dims[d] = by;
      else if (!is_fully_replicated(call.table.maps, by))
        mark_wrong(result, Code::ReductionOverShard,
                   fmt::format("{} by a sharded index uses only the local shard", name_of(call)));
    } else if (dim_of_x != by && along.x.shape[d] == along.index.shape[d]) {
      out.dims[d] = join(call, result, dim_of_x, by, false, fmt::format("dim {}", d));
    } else if (along.row.gathers) {
      out.dims[d] = by;
    }
  }
}

// Combines partial states: a written or added tensor must be partial over the same axes as the operand. Zeros fit any.
void put_source(OpCall& call, OpResult& result, const IndexCall& along, ValueLayout& out) {
  const ValueLayout &x = *along.x.layout, &source = *along.source->layout;
  if ((x.partial | source.partial) != 0 && !is_linear(call))
    mark_wrong(
        result, Code::PartialUsedAsFull,
        fmt::format("{} of a pending partial sum is not linear: the local results do not add up to the full result",
                    name_of(call)));
  const bool fits = x.partial == source.partial || (x.partial == 0 && x.zero) || (source.partial == 0 && source.zero);
  if (!fits)
    mark_wrong(
        result, Code::ReplicatedValueReduced,
        source.partial != 0
            ? fmt::format(
                  "{} adds a pending partial sum to a full value: the reduction counts the full value on every rank",
                  name_of(call))
            : fmt::format("{} writes a full value into a pending partial sum: the reduction counts it {} times",
                          name_of(call), call.table.maps.ranks));
  out.partial = x.partial | source.partial;
  out.zero = x.zero && source.zero;
  if (!along.row.by_rows || along.index.layout->dims.empty()) return;
  // If the added rows are sharded, each rank adds its rows, and the result is partial.
  const DimLayout& rows = call.table.maps.maps[along.index.layout->dims[0]];
  if (rows.is_complete) return;
  if (rows.tiles && x.zero)
    out.partial |= rows.axes;
  else
    mark_wrong(result, Code::ReductionOverShard,
               fmt::format("{} of sharded rows uses only the local shard", name_of(call)));
}

void put_number(OpCall& call, OpResult& result, const IndexCall& along, ValueLayout& out) {
  const GraphArg* value = find_arg(call, 3, "value");
  const bool nonzero = value != nullptr && value->number != 0;
  if (along.x.layout->partial && nonzero)
    mark_wrong(result, Code::ReplicatedValueReduced,
               fmt::format("{} writes a number into a pending partial sum: the reduction counts it on every rank",
                           name_of(call)));
  out.zero = along.x.layout->zero && !nonzero;
}

}  // namespace

void rule_index_along(OpCall& call, OpResult& result) {
  const IndexRow& row = kIndexRows[index_of(call.node.op)];
  const auto x = tensor_at(call, 0);
  const auto index = tensor_at(call, row.index_first ? 1 : 2, row.index_first ? "indices" : "index");
  if (!x || !index) return;
  const GraphArg* dim_arg = find_arg(call, row.index_first ? 2 : 1, "dim");
  const IndexCall along{
      .row = row,
      .x = *x,
      .index = *index,
      .source = tensor_at(call, 3, row.by_rows ? "source" : "src"),
      .dim = dim_index(is_number(dim_arg) ? number_of(call, *dim_arg).traced : 0, x->layout->dims.size())};
  if (index->layout->partial)
    mark_wrong(result, Code::PartialUsedAsFull, "the index is a pending partial sum, but is used as the full sum");
  if (along.dim < x->layout->dims.size() && !is_fully_replicated(call.table.maps, x->layout->dims[along.dim]))
    mark_wrong(result, Code::ReductionOverShard,
               fmt::format("{} along sharded dim {} uses only the local shard: {}", name_of(call), along.dim,
                           dim_layout_text(call.table.maps, x->layout->dims[along.dim])));
  ValueLayout out = *x->layout;
  out.is_dtensor = out.wrong = out.local_view = false;
  (row.by_rows ? combine_rows : combine_elements)(call, result, along, out);
  if (along.source)
    put_source(call, result, along, out);
  else if (!row.gathers)
    put_number(call, result, along, out);
  check_layout(call, result, out);
  append_result(result, std::move(out));
}

// (x, mask, source): writes the elements of the source in order. The mask can be smaller than x.
void rule_masked_scatter(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0), mask = tensor_at(call, 1, "mask"), source = tensor_at(call, 2, "source");
  if (!x || !mask || !source) return;
  if (mask->layout->partial)
    mark_wrong(result, Code::PartialUsedAsFull, "the mask is a pending partial sum, but is used as the full sum");
  for (const Operand& operand : {*x, *mask, *source}) {
    if (!is_all_replicated(call.table, *operand.layout))
      mark_wrong(result, Code::ReductionOverShard,
                 fmt::format("{} expects replicated operands, but one is not: {}", name_of(call),
                             layout_text(call.table, *operand.layout)));
  }
  ValueLayout out = *x->layout;
  out.is_dtensor = out.wrong = out.local_view = false;
  const Operand summed[] = {*x, *source};
  combine_partial_sums(call, result, summed, Linearity::Add, false, out);
  check_layout(call, result, out);
  append_result(result, std::move(out));
}

}  // namespace tpplan
