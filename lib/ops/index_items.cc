#include "ops/index_items.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {
namespace {

bool given(const GraphArg* arg) { return arg != nullptr && arg->kind != ArgKind::None; }

std::string_view dtype_of(const OpCall& call, ValueId value) {
  return call.graph.strings[call.graph.values[value].dtype];
}

}  // namespace

std::vector<IndexItem> read_index(const OpCall& call, size_t ndim) {
  std::vector<IndexItem> items;
  uint32_t index = 0;
  const GraphArg* root = find_arg(call, 1, "index", &index);
  if (root == nullptr) return items;
  std::vector<uint32_t> parts;
  if (root->kind == ArgKind::Tuple) {
    for (uint32_t i = index + 1; i < root->end; i = call.graph.args[i].end) parts.push_back(i);
  } else {
    parts.push_back(index);
  }
  size_t consumed = 0;
  for (const uint32_t i : parts) {
    const GraphArg& arg = call.graph.args[i];
    if (arg.kind == ArgKind::None || arg.kind == ArgKind::Ellipsis) continue;
    const bool mask = arg.kind == ArgKind::Value && dtype_of(call, arg.id) == "bool";
    consumed += mask ? shape_of(call.graph, arg.id).size() : 1;
  }
  size_t dim = 0;
  const auto keep = [&](size_t count) {
    for (; count > 0 && dim < ndim; --count) {
      IndexItem item;
      item.dim = dim++;
      items.push_back(item);
    }
  };
  bool has_ellipsis = false;
  for (const uint32_t i : parts) {
    const GraphArg& arg = call.graph.args[i];
    IndexItem item;
    item.dim = dim;
    switch (arg.kind) {
      case ArgKind::None:
        item.kind = IndexKind::NewAxis;
        items.push_back(item);
        continue;
      case ArgKind::Ellipsis:
        has_ellipsis = true;
        keep(ndim > consumed ? ndim - consumed : 0);
        continue;
      case ArgKind::Slice: {
        const uint32_t b = i + 1, e = call.graph.args[b].end, s = call.graph.args[e].end;
        item.begin = &call.graph.args[b];
        item.end = &call.graph.args[e];
        item.step = &call.graph.args[s];
        break;
      }
      case ArgKind::Value: {
        item.tensor = operand_of(call, arg.id);
        item.kind = dtype_of(call, arg.id) == "bool" ? IndexKind::Mask : IndexKind::Tensor;
        if (item.kind == IndexKind::Mask) item.dims = item.tensor->shape.size();
        break;
      }
      case ArgKind::Tuple: {
        item.kind = IndexKind::List;
        for (uint32_t part = i + 1; part < arg.end; part = call.graph.args[part].end) ++item.list;
        break;
      }
      default:
        item.kind = IndexKind::Number;
        item.number = &arg;
        break;
    }
    dim += item.dims;
    if (dim > ndim) return items;
    items.push_back(item);
  }
  if (!has_ellipsis) keep(ndim);
  return items;
}

LocalSlice slice_of(const OpCall& call, const IndexItem& item, int64_t size, size_t rank, bool traced) {
  const auto bound = [&](const GraphArg* arg, int64_t absent) {
    if (!given(arg)) return absent;
    const RankNumber number = number_of(call, *arg);
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

bool slice_dim(OpCall& call, OpResult& result, const IndexItem& item, MapId map, MapId& sliced) {
  const DimMap held = call.table.maps.maps[map];
  std::vector<LocalSlice> local;
  for (size_t rank = 0; rank < call.table.maps.ranks; ++rank)
    local.push_back(slice_of(call, item, held.local[rank], rank, false));
  const LocalSlice whole = slice_of(call, item, held.size, 0, true);
  std::string fault;
  if (const auto out = slice_map(call.table.maps, map, local, whole, fault)) {
    sliced = *out;
    return true;
  }
  make_wrong(result, Code::TP5107,
             fmt::format("a slice of dim {} takes other elements of a piece than of the whole: {}", item.dim, fault));
  std::vector<int64_t> sizes;
  for (const LocalSlice& s : local) sizes.push_back((s.end - s.begin + s.step - 1) / s.step);
  sliced =
      any_map(call.table.maps, (whole.end - whole.begin + whole.step - 1) / whole.step, std::move(sizes), held.axes);
  return false;
}

bool takes_all(const IndexItem& item) {
  return item.kind == IndexKind::Slice && !given(item.begin) && !given(item.end) && !given(item.step);
}

}  // namespace tpplan
