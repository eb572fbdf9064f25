#include "ops/index_items.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {
namespace {

bool given(const GraphArg* arg) { return arg != nullptr && arg->kind != ArgKind::None; }

std::string_view operand_dtype(const OpCall& call, ValueId value) {
  return call.graph.strings[call.graph.values[value].dtype];
}

// Returns the comma-separated parts of the index.
std::vector<uint32_t> index_parts(const OpCall& call) {
  std::vector<uint32_t> parts;
  uint32_t index = 0;
  const GraphArg* root = find_arg(call, 1, "index", &index);
  if (root->kind != ArgKind::Tuple) return {index};
  for (uint32_t i = index + 1; i < root->end; i = call.graph.args[i].end) parts.push_back(i);
  return parts;
}

// Returns the number of dims that the parts cover, without an ellipsis, which covers the others.
size_t dims_of(const OpCall& call, std::span<const uint32_t> parts) {
  size_t dims = 0;
  for (const uint32_t i : parts) {
    const GraphArg& arg = call.graph.args[i];
    if (arg.kind == ArgKind::None || arg.kind == ArgKind::Ellipsis) continue;
    const bool mask = arg.kind == ArgKind::Value && operand_dtype(call, arg.id) == "bool";
    dims += mask ? shape_of(call.graph, arg.id).size() : 1;
  }
  return dims;
}

// Returns the item of argument `index`, which covers the dims from `dim` on. It must not be an ellipsis.
IndexItem item_of(const OpCall& call, uint32_t index, size_t dim) {
  const GraphArg& arg = call.graph.args[index];
  IndexItem item;
  item.dim = dim;
  switch (arg.kind) {
    case ArgKind::None:
      item.kind = IndexKind::NewAxis;
      item.dims = 0;
      break;
    case ArgKind::Slice: {
      const uint32_t begin = index + 1, end = call.graph.args[begin].end, step = call.graph.args[end].end;
      item.begin = &call.graph.args[begin];
      item.end = &call.graph.args[end];
      item.step = &call.graph.args[step];
      break;
    }
    case ArgKind::Value:
      item.tensor = operand_of(call, arg.id);
      item.kind = operand_dtype(call, arg.id) == "bool" ? IndexKind::Mask : IndexKind::Tensor;
      if (item.kind == IndexKind::Mask) item.dims = item.tensor->shape.size();
      break;
    case ArgKind::Tuple:
      item.kind = IndexKind::List;
      for (uint32_t part = index + 1; part < arg.end; part = call.graph.args[part].end) ++item.list;
      break;
    default:
      item.kind = IndexKind::Number;
      item.number = &arg;
      break;
  }
  return item;
}

}  // namespace

std::vector<IndexItem> read_index(const OpCall& call, size_t ndim) {
  std::vector<IndexItem> items;
  if (find_arg(call, 1, "index") == nullptr) return items;
  const std::vector<uint32_t> parts = index_parts(call);
  const size_t named = dims_of(call, parts);
  size_t dim = 0;
  const auto add_full_dims = [&](size_t count) {
    for (; count > 0 && dim < ndim; --count) {
      IndexItem item;
      item.dim = dim++;
      items.push_back(item);
    }
  };
  bool has_ellipsis = false;
  for (const uint32_t part : parts) {
    if (call.graph.args[part].kind == ArgKind::Ellipsis) {
      has_ellipsis = true;
      add_full_dims(ndim > named ? ndim - named : 0);
      continue;
    }
    const IndexItem item = item_of(call, part, dim);
    dim += item.dims;
    if (dim > ndim) return items;
    items.push_back(item);
  }
  if (!has_ellipsis) add_full_dims(ndim);
  return items;
}

LocalSlice slice_of_item(const OpCall& call, const IndexItem& item, int64_t size, size_t rank, bool traced) {
  const auto bound = [&](const GraphArg* arg, int64_t absent) {
    if (!given(arg)) return absent;
    const PerRankNumber number = number_of(call, *arg);
    int64_t n = traced ? number.traced : number.local[rank];
    if (n < 0) n += size;
    return std::clamp<int64_t>(n, 0, size);
  };
  LocalSlice slice;
  if (given(item.step)) slice.step = std::max<int64_t>(1, number_of(call, *item.step).traced);
  slice.begin = bound(item.begin, 0);
  slice.end = std::max(slice.begin, bound(item.end, size));
  return slice;
}

bool slice_dim(OpCall& call, OpResult& result, const IndexItem& item, DimLayoutId map, DimLayoutId& sliced) {
  const DimLayout held = call.table.maps.maps[map];
  std::vector<LocalSlice> local;
  for (size_t rank = 0; rank < call.table.maps.ranks; ++rank)
    local.push_back(slice_of_item(call, item, held.local[rank], rank, false));
  const LocalSlice global = slice_of_item(call, item, held.size, 0, true);
  std::string fault;
  if (const auto out = slice_layout(call.table.maps, map, local, global, fault)) {
    sliced = *out;
    return true;
  }
  mark_wrong(result, Code::ShardsMismatch,
             fmt::format("a slice of dim {} selects other elements of the shard than of the full tensor: {}", item.dim,
                         fault));
  std::vector<int64_t> sizes;
  for (const LocalSlice& s : local) sizes.push_back((s.end - s.begin + s.step - 1) / s.step);
  sliced = unknown_dim(call.table.maps, (global.end - global.begin + global.step - 1) / global.step, std::move(sizes),
                       held.axes);
  return false;
}

bool is_full_slice(const IndexItem& item) {
  return item.kind == IndexKind::Slice && !given(item.begin) && !given(item.end) && !given(item.step);
}

}  // namespace tpplan
