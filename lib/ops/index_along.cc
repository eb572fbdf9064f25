// gather, scatter, index_add and their like: one dim whole; along the others the index goes with what it is applied to.
// masked_scatter: nothing says which element of the source goes where, so that all of it is whole.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/op_rules.h"

namespace tpplan {
namespace {

struct IndexRow {
  std::string_view name;
  bool gathers = false;      // gives what stands at the index; the others put something there
  bool by_rows = false;      // an index for a whole row; the others have one for each element
  bool index_first = false;  // (x, index, dim); the others are (x, dim, index)
};

constexpr IndexRow kIndexRows[] = {
    {.name = "gather", .gathers = true},
    {.name = "take_along_dim", .gathers = true, .index_first = true},
    {.name = "index_select", .gathers = true, .by_rows = true},
    {.name = "scatter"},
    {.name = "scatter_add"},
    {.name = "scatter_reduce"},
    {.name = "index_add", .by_rows = true},
    {.name = "index_copy", .by_rows = true},
};

struct IndexCall {
  const IndexRow& row;
  Operand x, index;
  std::optional<Operand> source;  // what is put there, where it is a tensor
  size_t dim = 0;
};

// What scatter_reduce makes of the elements that meet at a place is linear for sums and means alone.
bool is_linear(const OpCall& call) {
  if (call.name != "scatter_reduce") return true;
  const GraphArg* how = find_arg(call, 4, "reduce");
  const std::string_view reduce =
      how != nullptr && how->kind == ArgKind::Text ? std::string_view(call.graph.texts[how->id]) : std::string_view{};
  return reduce == "sum" || reduce == "mean";
}

// The index has one dim, which goes along with the rows of the source.
void meet_rows(OpCall& call, OpResult& result, const IndexCall& along, Spread& out) {
  const std::vector<MapId>& by = along.index.layout->dims;
  const size_t dim = along.dim;
  if (along.row.gathers && dim < out.dims.size()) out.dims[dim] = by.empty() ? whole_map(call.table.maps, 1) : by[0];
  for (size_t d = 0; d < out.dims.size(); ++d) {
    if (!along.source || d >= along.source->layout->dims.size()) continue;
    const MapId given = along.source->layout->dims[d];
    if (d != dim)
      out.dims[d] = join(call, result, along.x.layout->dims[d], given, false, fmt::format("dim {}", d));
    else if (!by.empty())
      join(call, result, by[0], given, false, fmt::format("dim {} of the source", d));
  }
}

// The index has as many dims as what it is applied to, and may be smaller along each.
void meet_elements(OpCall& call, OpResult& result, const IndexCall& along, Spread& out) {
  for (size_t d = 0; d < out.dims.size() && d < along.index.layout->dims.size(); ++d) {
    const MapId own = along.x.layout->dims[d];
    MapId by = along.index.layout->dims[d];
    if (along.source && d < along.source->layout->dims.size())
      by = join(call, result, by, along.source->layout->dims[d], false, fmt::format("dim {} of the source", d));
    if (d == along.dim) {
      if (along.row.gathers)
        out.dims[d] = by;
      else if (!is_whole(call.table.maps, by))
        make_wrong(result, Code::TP5113, fmt::format("{} by an index of which ranks hold pieces", name_of(call)));
    } else if (own != by && along.x.shape[d] == along.index.shape[d]) {
      out.dims[d] = join(call, result, own, by, false, fmt::format("dim {}", d));
    } else if (along.row.gathers) {
      out.dims[d] = by;
    }
  }
}

// A tensor that is put or added into another must be open where that is; zeros fit to both.
void put_source(OpCall& call, OpResult& result, const IndexCall& along, Spread& out) {
  const Spread &x = *along.x.layout, &source = *along.source->layout;
  if ((x.partial | source.partial) != 0 && !is_linear(call))
    make_wrong(result, Code::TP5108, fmt::format("{} of a sum that is still open is no sum", name_of(call)));
  const bool fits = x.partial == source.partial || (x.partial == 0 && x.zero) || (source.partial == 0 && source.zero);
  if (!fits)
    make_wrong(result, Code::TP5109,
               source.partial != 0
                   ? fmt::format("{} adds an open sum to a complete value", name_of(call))
                   : fmt::format("{} puts a complete value into a sum that is still open: it is counted {} times",
                                 name_of(call), call.table.maps.ranks));
  out.partial = x.partial | source.partial;
  out.zero = x.zero && source.zero;
  if (!along.row.by_rows || along.index.layout->dims.empty()) return;
  // The rows that are added in are pieces of what is added up: each rank adds its own, and has a term of the sum.
  const DimMap& rows = call.table.maps.maps[along.index.layout->dims[0]];
  if (rows.is_complete) return;
  if (rows.tiles && x.zero)
    out.partial |= rows.axes;
  else
    make_wrong(result, Code::TP5113, fmt::format("{} of rows of which ranks hold pieces", name_of(call)));
}

void put_number(OpCall& call, OpResult& result, const IndexCall& along, Spread& out) {
  const GraphArg* value = find_arg(call, 3, "value");
  const bool nonzero = value != nullptr && value->number != 0;
  if (along.x.layout->partial && nonzero)
    make_wrong(result, Code::TP5109, fmt::format("{} of a number into a sum that is still open", name_of(call)));
  out.zero = along.x.layout->zero && !nonzero;
}

}  // namespace

void rule_index_along(OpCall& call, OpResult& result) {
  const IndexRow& row = *std::find_if(std::begin(kIndexRows), std::end(kIndexRows),
                                      [&](const IndexRow& candidate) { return candidate.name == call.name; });
  const auto x = tensor_at(call, 0);
  const auto index = tensor_at(call, row.index_first ? 1 : 2, row.index_first ? "indices" : "index");
  if (!x || !index) return;
  const GraphArg* dim_arg = find_arg(call, row.index_first ? 2 : 1, "dim");
  const IndexCall along{
      .row = row,
      .x = *x,
      .index = *index,
      .source = tensor_at(call, 3, row.by_rows ? "source" : "src"),
      .dim = from_end(is_number(dim_arg) ? number_of(call, *dim_arg).traced : 0, x->layout->dims.size())};
  if (index->layout->partial) make_wrong(result, Code::TP5108, "an index is a sum that is still open");
  if (along.dim < x->layout->dims.size() && !is_whole(call.table.maps, x->layout->dims[along.dim]))
    make_wrong(result, Code::TP5113,
               fmt::format("{} along dim {}, of which ranks hold pieces: {}", name_of(call), along.dim,
                           map_text(call.table.maps, x->layout->dims[along.dim])));
  Spread out = *x->layout;
  out.is_dtensor = out.wrong = out.local_view = false;
  (row.by_rows ? meet_rows : meet_elements)(call, result, along, out);
  if (along.source)
    put_source(call, result, along, out);
  else if (!row.gathers)
    put_number(call, result, along, out);
  check_layout(call, result, out);
  give(result, std::move(out));
}

// (x, mask, source), where the mask may be smaller than x: the elements of the source in their order.
void rule_masked_scatter(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0), mask = tensor_at(call, 1, "mask"), source = tensor_at(call, 2, "source");
  if (!x || !mask || !source) return;
  if (mask->layout->partial) make_wrong(result, Code::TP5108, "a mask is a sum that is still open");
  for (const Operand& operand : {*x, *mask, *source}) {
    if (!is_all_whole(call.table, *operand.layout))
      make_wrong(result, Code::TP5113,
                 fmt::format("{} of what is not whole on every rank: {}", name_of(call),
                             layout_text(call.table, *operand.layout)));
  }
  Spread out = *x->layout;
  out.is_dtensor = out.wrong = out.local_view = false;
  const Operand summed[] = {*x, *source};
  combine_sums(call, result, summed, Linearity::Add, false, out);
  check_layout(call, result, out);
  give(result, std::move(out));
}

}  // namespace tpplan
