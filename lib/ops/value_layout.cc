#include "ops/value_layout.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {

ValueLayoutId intern(ValueLayoutTable& table, const ValueLayout& layout) {
  std::string key;
  key.reserve(sizeof(int64_t) * (2 + layout.dims.size() + 4 * layout.declared.size() + layout.declared_shape.size()));
  const auto put = [&key](int64_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof number); };
  put(layout.zero << 1 | layout.wrong << 2 | layout.local_view << 3 | layout.is_dtensor << 4 |
      static_cast<int64_t>(layout.dims.size()) << 8);
  put(layout.partial);
  for (const DimLayoutId map : layout.dims) put(map);
  if (layout.is_dtensor) {
    for (const Placement& placement : layout.declared) {
      put(static_cast<int64_t>(placement.kind));
      put(placement.dim);
      put(placement.split_factor);
      put(static_cast<int64_t>(placement.op));
    }
    for (const int64_t size : layout.declared_shape) put(size);
  }
  const auto [entry, is_new] =
      table.index.try_emplace(std::move(key), static_cast<ValueLayoutId>(table.layouts.size()));
  if (is_new) {
    ValueLayout& added = table.layouts.emplace_back(layout);
    if (!layout.is_dtensor) {  // its declared placements are not part of the key
      added.declared.clear();
      added.declared_shape.clear();
    }
    table.is_plain.push_back(layout.partial == 0 && !layout.zero && !layout.wrong && !layout.local_view &&
                             !layout.is_dtensor && is_all_replicated(table, layout));
  }
  return entry->second;
}

ValueLayout replicated_layout(ValueLayoutTable& table, std::span<const int64_t> shape) {
  ValueLayout layout;
  layout.dims.reserve(shape.size());
  for (const int64_t size : shape) layout.dims.push_back(replicated_dim(table.maps, size));
  return layout;
}

std::vector<ValueLayoutId> replicated_layouts(ValueLayoutTable& table, const OpGraph& graph) {
  std::vector<ValueLayoutId> layouts;
  for (const GraphShape& shape : graph.shapes)
    layouts.push_back(
        intern(table, replicated_layout(table, std::span(graph.shape_sizes).subspan(shape.begin, shape.ndim))));
  return layouts;
}

ValueLayout placed_layout(ValueLayoutTable& table, std::span<const int64_t> shape, const DeclaredPlacements& declared) {
  ValueLayout layout = replicated_layout(table, shape);
  for (size_t axis = 0; axis < declared.size(); ++axis) {
    const Placement& placement = declared[axis];
    const auto dim =
        static_cast<size_t>(placement.dim < 0 ? placement.dim + static_cast<int>(shape.size()) : placement.dim);
    if (is_shard(placement) && dim < shape.size())
      layout.dims[dim] = sharded_dim(table.maps, layout.dims[dim], axis,
                                     placement.kind == PlacementKind::StridedShard ? placement.split_factor : 1);
    if (placement.kind == PlacementKind::Partial) layout.partial |= AxisMask{1} << axis;
  }
  return layout;
}

std::vector<int64_t> local_shape(const ValueLayoutTable& table, const ValueLayout& layout, size_t rank) {
  std::vector<int64_t> shape;
  for (size_t dim = 0; dim < layout.dims.size(); ++dim) shape.push_back(local_size(table, layout, dim, rank));
  return shape;
}

bool is_sharded(const ValueLayoutTable& table, const ValueLayout& layout) {
  return std::any_of(layout.dims.begin(), layout.dims.end(),
                     [&](DimLayoutId map) { return differs_from_global(table.maps, map); });
}

AxisMask sharding_axes(const ValueLayoutTable& table, const ValueLayout& layout) {
  AxisMask axes = 0;
  for (const DimLayoutId map : layout.dims) axes |= table.maps.maps[map].axes;
  return axes;
}

bool is_all_replicated(const ValueLayoutTable& table, const ValueLayout& layout) {
  return std::all_of(layout.dims.begin(), layout.dims.end(),
                     [&](DimLayoutId map) { return is_fully_replicated(table.maps, map); });
}

std::string layout_text(const ValueLayoutTable& table, const ValueLayout& layout) {
  std::string out;
  for (size_t dim = 0; dim < layout.dims.size(); ++dim) {
    if (is_fully_replicated(table.maps, layout.dims[dim])) continue;
    out += fmt::format("{}dim {}: {}", out.empty() ? "" : "; ", dim, dim_layout_text(table.maps, layout.dims[dim]));
  }
  if (layout.partial != 0) out += out.empty() ? "pending partial sum" : ", pending partial sum";
  return out.empty() ? "replicated" : out;
}

}  // namespace tpplan
