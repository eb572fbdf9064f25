#include "ops/spread.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {

SpreadId intern(SpreadTable& table, const Spread& layout) {
  std::string key;
  key.reserve(sizeof(int64_t) * (2 + layout.dims.size() + 4 * layout.claim.size() + layout.claimed_shape.size()));
  const auto put = [&key](int64_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof number); };
  put(layout.zero << 1 | layout.wrong << 2 | layout.local_view << 3 | layout.is_dtensor << 4 |
      static_cast<int64_t>(layout.dims.size()) << 8);
  put(layout.partial);
  for (const MapId map : layout.dims) put(map);
  if (layout.is_dtensor) {
    for (const Placement& placement : layout.claim) {
      put(static_cast<int64_t>(placement.kind));
      put(placement.dim);
      put(placement.split_factor);
      put(static_cast<int64_t>(placement.op));
    }
    for (const int64_t size : layout.claimed_shape) put(size);
  }
  const auto [entry, is_new] = table.index.try_emplace(std::move(key), static_cast<SpreadId>(table.layouts.size()));
  if (is_new) {
    Spread& added = table.layouts.emplace_back(layout);
    if (!layout.is_dtensor) {  // what it claims is not in its key
      added.claim.clear();
      added.claimed_shape.clear();
    }
    table.is_plain.push_back(layout.partial == 0 && !layout.zero && !layout.wrong && !layout.local_view &&
                             !layout.is_dtensor && is_all_whole(table, layout));
  }
  return entry->second;
}

Spread whole_layout(SpreadTable& table, std::span<const int64_t> shape) {
  Spread layout;
  layout.dims.reserve(shape.size());
  for (const int64_t size : shape) layout.dims.push_back(whole_map(table.maps, size));
  return layout;
}

std::vector<SpreadId> whole_layouts(SpreadTable& table, const OpGraph& graph) {
  std::vector<SpreadId> layouts;
  for (const GraphShape& shape : graph.shapes)
    layouts.push_back(
        intern(table, whole_layout(table, std::span(graph.shape_sizes).subspan(shape.begin, shape.ndim))));
  return layouts;
}

Spread placed_layout(SpreadTable& table, std::span<const int64_t> shape, const Claim& claim) {
  Spread layout = whole_layout(table, shape);
  for (size_t axis = 0; axis < claim.size(); ++axis) {
    const Placement& placement = claim[axis];
    const auto dim =
        static_cast<size_t>(placement.dim < 0 ? placement.dim + static_cast<int>(shape.size()) : placement.dim);
    if (is_shard(placement) && dim < shape.size())
      layout.dims[dim] = cut_map(table.maps, layout.dims[dim], axis,
                                 placement.kind == PlacementKind::StridedShard ? placement.split_factor : 1);
    if (placement.kind == PlacementKind::Partial) layout.partial |= AxisMask{1} << axis;
  }
  return layout;
}

std::vector<int64_t> local_shape(const SpreadTable& table, const Spread& layout, size_t rank) {
  std::vector<int64_t> shape;
  for (size_t dim = 0; dim < layout.dims.size(); ++dim) shape.push_back(local_size(table, layout, dim, rank));
  return shape;
}

bool is_sharded(const SpreadTable& table, const Spread& layout) {
  return std::any_of(layout.dims.begin(), layout.dims.end(), [&](MapId map) { return is_piece(table.maps, map); });
}

AxisMask cut_axes(const SpreadTable& table, const Spread& layout) {
  AxisMask axes = 0;
  for (const MapId map : layout.dims) axes |= table.maps.maps[map].axes;
  return axes;
}

bool is_all_whole(const SpreadTable& table, const Spread& layout) {
  return std::all_of(layout.dims.begin(), layout.dims.end(), [&](MapId map) { return is_whole(table.maps, map); });
}

std::string layout_text(const SpreadTable& table, const Spread& layout) {
  std::string out;
  for (size_t dim = 0; dim < layout.dims.size(); ++dim) {
    if (is_whole(table.maps, layout.dims[dim])) continue;
    out += fmt::format("{}dim {}: {}", out.empty() ? "" : "; ", dim, map_text(table.maps, layout.dims[dim]));
  }
  if (layout.partial != 0) out += out.empty() ? "a sum that is still open" : ", a sum that is still open";
  return out.empty() ? "whole" : out;
}

}  // namespace tpplan
