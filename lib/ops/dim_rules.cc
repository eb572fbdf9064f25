// Operations along dims. A sum over a sharded dim is partial; all others need the dim replicated.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "ops/op_rules.h"

namespace tpplan {
namespace {

bool goes_by_default(int absent, size_t dim, size_t ndim) {
  if (absent == kAfterChannels) return dim > 1;
  if (absent > kLastDims) return dim + static_cast<size_t>(absent - kLastDims) >= ndim;
  return absent == kAllDims || dim_index(absent, ndim) == dim;
}

// Returns a flag for each dim: true if the call covers it. All false for a row that appends.
std::vector<bool> named_dims(const OpCall& call, const DimSpec& row, std::string_view keyword, size_t ndim) {
  std::vector<bool> named(ndim, false);
  if (row.effect == DimEffect::Appended) return named;
  const GraphArg* arg = find_arg(call, static_cast<size_t>(row.dim_at), keyword);
  std::vector<PerRankNumber> dims;
  if (arg != nullptr && (is_number(arg) || arg->kind == ArgKind::Tuple))
    dims = numbers_at(call, static_cast<size_t>(row.dim_at), keyword);
  for (size_t dim = 0; dim < ndim && dims.empty(); ++dim) named[dim] = goes_by_default(row.absent, dim, ndim);
  for (const PerRankNumber& n : dims) {
    if (dim_index(n.traced, ndim) < ndim) named[dim_index(n.traced, ndim)] = true;
  }
  return named;
}

std::string_view dim_keyword(OpId op) {
  return op == OpId::Flip || op == OpId::Roll ? "dims" : op == OpId::Unfold ? "dimension" : "dim";
}

}  // namespace

std::vector<bool> dims_of_operation(const OpCall& call) {
  const auto x = tensor_at(call, 0);
  const OpRow& row = op_row(call.node.op);
  return x && row.rule == rule_dim ? named_dims(call, row.along, dim_keyword(call.node.op), x->shape.size())
                                   : std::vector<bool>{};
}

namespace {

// Checks one dim that the call covers. A sum over a sharded dim adds its axes to `summed`; everything else needs the
// full dim, in order if it is a dim of the result.
void need_dim(OpCall& call, OpResult& result, DimEffect effect, size_t dim, DimLayoutId map, AxisMask& summed) {
  const DimLayout& held = call.table.maps.maps[map];
  if (!held.is_complete) {
    if (call.node.op == OpId::Sum && held.tiles)
      summed |= held.axes;
    else
      report_sharded_dim(call, result, dim, map);
  } else if (held.kind != DimLayoutKind::Replicated && (effect == DimEffect::Same || effect == DimEffect::Resized)) {
    mark_wrong(result, Code::ReductionOverShard,
               fmt::format("{} along dim {}, whose elements are not in their global order", name_of(call), dim));
  }
}

// Returns the layout of a dim after the call. If it is sharded, the values are wrong, and the sizes follow from local
// ones.
DimLayoutId resized_map(OpCall& call, size_t dim, const DimLayout& held, int64_t size) {
  DimLayoutTable& maps = call.table.maps;
  const SizeRule sizes = held.kind == DimLayoutKind::Replicated ? nullptr : op_row(call.node.op).sizes;
  if (sizes == nullptr) return replicated_dim(maps, size);
  const auto shape = tensor_at(call, 0)->shape;
  const auto result = out_shape(call);
  std::vector<int64_t> local = held.local;
  for (int64_t& local_size : local) {
    Sizes x(shape.begin(), shape.end()), out(result.begin(), result.end());
    x[dim] = local_size;
    sizes(call, x, out);
    local_size = std::max<int64_t>(0, out[dim]);
  }
  return unknown_dim(maps, size, std::move(local), held.axes);
}

// Reports ranks without elements of dims from `first` on. Windows need some; an empty batch is possible (torch 2.13).
void need_elements(OpCall& call, OpResult& result, const Operand& x, size_t first) {
  for (size_t dim = first; dim < x.layout->dims.size(); ++dim) {
    const std::vector<int64_t>& local = call.table.maps.maps[x.layout->dims[dim]].local;
    if (x.shape[dim] != 0 && std::find(local.begin(), local.end(), 0) != local.end())
      crash(
          result, Code::OperandSizesDiffer,
          fmt::format("{} fails on a rank without elements of dim {}: {}", name_of(call), dim, rank_sizes_text(local)));
  }
}

}  // namespace

void rule_dim(OpCall& call, OpResult& result) {
  const DimSpec& row = op_row(call.node.op).along;
  const bool is_linear = op_row(call.node.op).linearity == Linearity::Linear;
  const auto x = tensor_at(call, 0);
  if (!x) return;
  // `max(x, y)` of two tensors is elementwise.
  const std::string_view keyword = dim_keyword(call.node.op);
  if (row.effect != DimEffect::Appended && tensor_at(call, static_cast<size_t>(row.dim_at), keyword))
    return rule_pointwise(call, result);
  DimLayoutTable& maps = call.table.maps;
  const size_t ndim = x->layout->dims.size();
  const std::vector<bool> named = named_dims(call, row, keyword, ndim);
  if (row.dim_at == kNoDim && row.effect == DimEffect::Resized) need_elements(call, result, *x, 1);
  if (row.needs_elements) need_elements(call, result, *x, 0);
  ValueLayout out;
  out.partial = x->layout->partial;
  if (x->layout->partial && !is_linear)
    mark_wrong(result, Code::PartialUsedAsFull,
               fmt::format("{} uses a pending partial sum as the full sum", name_of(call)));
  out.zero = x->layout->zero && is_linear;
  const bool has_keepdim = row.keepdim_at >= 0 && bool_at(call, static_cast<size_t>(row.keepdim_at), "keepdim", false);
  AxisMask summed = 0, unsummed_axes = 0;
  const auto target = out_shape(call);
  for (size_t dim = 0; dim < ndim; ++dim) {
    const DimLayoutId map = x->layout->dims[dim];
    const DimLayout held = maps.maps[map];
    if (!named[dim]) {
      if (held.kind == DimLayoutKind::Sharded) unsummed_axes |= held.axes;
      out.dims.push_back(map);
      continue;
    }
    need_dim(call, result, row.effect, dim, map, summed);
    if (row.effect == DimEffect::Same)
      out.dims.push_back(held.kind == DimLayoutKind::Replicated ? map
                                                                : unknown_dim(maps, held.size, held.local, held.axes));
    else if (row.effect == DimEffect::Resized)
      out.dims.push_back(dim < target.size() ? resized_map(call, dim, held, target[dim]) : replicated_dim(maps, 1));
    else if (has_keepdim)
      out.dims.push_back(replicated_dim(maps, 1));
  }
  if (row.effect == DimEffect::Appended || call.node.op == OpId::Unfold)
    out.dims.push_back(replicated_dim(maps, target.back()));
  if ((out.partial & summed) != 0)
    mark_wrong(result, Code::PartialUsedAsFull,
               "the reduction sums a pending partial sum over a dim that is sharded over the same axis");
  if ((unsummed_axes & summed) != 0)
    mark_wrong(result, Code::ShardsMismatch,
               fmt::format("{} over one sharded dim, but another dim is sharded over the same axis", name_of(call)));
  out.partial |= summed;
  check_layout(call, result, out);
  const size_t outs = call.node.out_end - call.node.out_begin;
  for (size_t i = 0; i < outs; ++i) append_result(result, out);
}

}  // namespace tpplan
