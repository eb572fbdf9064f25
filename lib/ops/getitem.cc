// x[...]: slices, numbers, new axes, index tensors, masks.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>

#include "ops/index_items.h"
#include "ops/op_rules.h"

namespace tpplan {
namespace {

// Checks an index that is a number: it must select the same global element on every rank.
void pick(OpCall& call, OpResult& result, const IndexItem& item, DimLayoutId map, const PerRankNumber& number) {
  const DimLayout held = call.table.maps.maps[map];
  std::vector<LocalSlice> local;
  for (size_t rank = 0; rank < call.table.maps.ranks; ++rank) {
    int64_t n = number.local[rank];
    if (n < 0) n += held.local[rank];
    if (n < 0 || n >= held.local[rank]) {
      crash(result, Code::OperandSizesDiffer,
            fmt::format("index {} of dim {} is out of range: rank {} holds {}", number.local[rank], item.dim, rank,
                        held.local[rank]));
      return;
    }
    local.push_back({n, n + 1, 1});
  }
  const int64_t n = number.traced < 0 ? number.traced + held.size : number.traced;
  std::string fault;
  if (!slice_layout(call.table.maps, map, local, {n, n + 1, 1}, fault))
    mark_wrong(result, Code::ShardsMismatch,
               fmt::format("an index into dim {} selects another element of the shard than of the full tensor: {}",
                           item.dim, fault));
}

void require_replicated(OpCall& call, OpResult& result, DimLayoutId map, size_t dim, std::string_view what) {
  if (call.table.maps.maps[map].kind == DimLayoutKind::Replicated) return;
  mark_wrong(result, Code::ReductionOverShard,
             fmt::format("{} into sharded dim {} can only select from the local shard: {}", what, dim,
                         dim_layout_text(call.table.maps, map)));
}

// The dims of index tensors are merged. The result is at the first of them if they are adjacent, otherwise in front
// (numpy's advanced indexing, as in torch).
struct IndexedDims {
  std::vector<DimLayoutId> maps;
  size_t at = 0, groups = 0;
  bool follows_tensor = false;  // the previous item was an index tensor
};

// Returns the layouts that replace a dim indexed by a tensor, a list or a mask.
std::vector<DimLayoutId> maps_of_index(OpCall& call, OpResult& result, const Operand& x, const IndexItem& item,
                                       size_t at) {
  if (item.kind == IndexKind::Tensor) return item.tensor->layout->dims;
  if (item.kind == IndexKind::List) return {replicated_dim(call.table.maps, item.list)};
  for (size_t d = 0; d < item.dims; ++d) {
    require_replicated(call, result, item.tensor->layout->dims[d], d, "a mask");
    join(call, result, x.layout->dims[item.dim + d], item.tensor->layout->dims[d], false,
         fmt::format("dim {}", item.dim + d));
  }
  // The number of elements that a mask selects depends on the data: use the traced one.
  const auto target = out_shape(call);
  const size_t last = target.empty() ? 0 : target.size() - 1;
  return {replicated_dim(call.table.maps, target.empty() ? 1 : target[std::min(at, last)])};
}

void index_dims(OpCall& call, OpResult& result, const Operand& x, const IndexItem& item, size_t out_dims,
                IndexedDims& indexed) {
  if (!indexed.follows_tensor && indexed.groups++ == 0) indexed.at = out_dims;
  if (item.tensor && item.tensor->layout->partial)
    mark_wrong(result, Code::PartialUsedAsFull, "the index is a pending partial sum, but is used as the full sum");
  for (size_t d = 0; d < item.dims; ++d)
    require_replicated(call, result, x.layout->dims[item.dim + d], item.dim + d,
                       item.kind == IndexKind::Mask ? "a mask" : "indices");
  const std::vector<DimLayoutId> maps = maps_of_index(call, result, x, item, indexed.at);
  std::vector<DimLayoutId>& combined = indexed.maps;
  if (maps.size() > combined.size())
    combined.insert(combined.begin(), maps.size() - combined.size(), replicated_dim(call.table.maps, 1));
  for (size_t d = 0; d < maps.size(); ++d) {
    DimLayoutId& slot = combined[combined.size() - maps.size() + d];
    slot = join(call, result, slot, maps[d], true, "an index");
  }
}

// Returns the layout of a sliced dim. The global slice becomes a segment, for the gradient.
DimLayoutId indexed_dim(OpCall& call, OpResult& result, const Operand& x, const IndexItem& item) {
  DimLayoutId sliced = x.layout->dims[item.dim];
  if (is_full_slice(item)) return sliced;
  std::ignore = slice_dim(call, result, item, x.layout->dims[item.dim], sliced);  // a failure is in `result`
  const LocalSlice global = slice_of_item(call, item, x.shape[item.dim], 0, true);
  if (global.step == 1) result.segments.push_back({0, static_cast<uint32_t>(item.dim), global.begin, global.end});
  return sliced;
}

}  // namespace

void rule_getitem(OpCall& call, OpResult& result) {
  const auto x = tensor_at(call, 0);
  if (!x) return;
  ValueLayout out;
  out.partial = x->layout->partial;
  out.zero = x->layout->zero;
  out.local_view = x->layout->local_view;
  IndexedDims indexed;
  for (const IndexItem& item : read_index(call, x->shape.size())) {
    const bool by_number_tensor = item.kind == IndexKind::Tensor && item.tensor->shape.empty();
    const bool advanced = item.kind == IndexKind::Mask || item.kind == IndexKind::List ||
                          (item.kind == IndexKind::Tensor && !by_number_tensor);
    if (advanced) {
      out.local_view = false;
      index_dims(call, result, *x, item, out.dims.size(), indexed);
    } else if (item.kind == IndexKind::NewAxis) {
      out.dims.push_back(replicated_dim(call.table.maps, 1));
    } else if (item.kind == IndexKind::Number) {
      const GraphArg& number = *item.number;
      if (is_number(&number)) pick(call, result, item, x->layout->dims[item.dim], number_of(call, number));
    } else if (by_number_tensor) {
      require_replicated(call, result, x->layout->dims[item.dim], item.dim, "an index");
    } else {
      out.dims.push_back(indexed_dim(call, result, *x, item));
    }
    indexed.follows_tensor = advanced;
  }
  if (indexed.groups > 0)
    out.dims.insert(out.dims.begin() + static_cast<std::ptrdiff_t>(indexed.groups == 1 ? indexed.at : 0),
                    indexed.maps.begin(), indexed.maps.end());
  if (result.segments.size() != 1) result.segments.clear();
  check_layout(call, result, out);
  append_result(result, std::move(out));
}

}  // namespace tpplan
