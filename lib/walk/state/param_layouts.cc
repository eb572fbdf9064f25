#include "walk/state/param_layouts.h"

#include <algorithm>

#include "walk/state/slots.h"

namespace tpplan {
namespace {

// Returns the layout of a dim whose segments are sharded separately, each by one axis after the other.
DimLayoutId shard_segments(Walk& walk, int64_t size, std::span<const int64_t> segments, std::span<const size_t> axes) {
  DimLayoutTable& maps = walk.memory.table.maps;
  RankIntervals intervals(walk.in.ranks);
  int64_t at = 0;
  for (const int64_t segment : segments) {
    for (size_t rank = 0; rank < walk.in.ranks; ++rank) {
      Interval run{at, at + segment};
      for (const size_t axis : axes)
        run = chunk(run, static_cast<int64_t>(maps.axes[axis]), static_cast<int64_t>(coordinate(maps, rank, axis)));
      intervals[rank].push_back(run);
    }
    at += segment;
  }
  return layout_of_intervals(maps, size, std::move(intervals));
}

DeclaredPlacements declared_for_sharding(const Walk& walk, const Sharding& sharding) {
  Mesh mesh;
  for (const AxisId axis : walk.in.axes) mesh.axes.push_back(walk.in.plan.mesh.axes[axis]);
  PartitionSpec spec(sharding.spec.size());
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    for (const AxisId axis : sharding.spec[dim]) {
      const auto at = std::find(walk.in.axes.begin(), walk.in.axes.end(), axis);
      if (at != walk.in.axes.end()) spec[dim].push_back(static_cast<AxisId>(at - walk.in.axes.begin()));
    }
  }
  DeclaredPlacements declared = placements_of({spec, {}}, mesh).value_or(replicated_placements(walk));
  for (Placement& placement : declared) {
    if (!is_shard(placement)) continue;
    const auto segments = segments_of(sharding, static_cast<size_t>(placement.dim));
    if (segments.size() > 1 && placement.kind == PlacementKind::Shard)
      placement = {.kind = PlacementKind::StridedShard,
                   .dim = placement.dim,
                   .split_factor = static_cast<int64_t>(segments.size())};
  }
  return declared;
}

// Returns the placements of a parameter's spec, on the walked axes only; sharded segments are StridedShard.
const DeclaredPlacements& declared_of(Walk& walk, ParamId id) {
  const auto [known, is_new] = walk.memory.declared_by_sharding.try_emplace(walk.in.shardings.params[id].sharding);
  if (is_new) known->second = declared_for_sharding(walk, sharding_of(walk.in.shardings, id));
  return known->second;
}

}  // namespace

ValueLayout param_layout(Walk& walk, ParamId id, RuleId& rule) {
  const Param& param = walk.in.model.params[id];
  const auto shape = shape_of(walk.in.model, param);
  ValueLayout layout = replicated_layout(walk.memory.table, shape);
  rule = walk.in.shardings.params[id].rule;
  const StyleRow* style = rule == kNoRule ? nullptr : walk.in.plan.rules[rule].style;
  const Sharding& sharding = sharding_of(walk.in.shardings, id);
  for (size_t dim = 0; dim < sharding.spec.size() && dim < shape.size(); ++dim) {
    std::vector<size_t> axes;
    for (const AxisId axis : sharding.spec[dim]) {
      const auto at = std::find(walk.in.axes.begin(), walk.in.axes.end(), axis);
      if (at != walk.in.axes.end()) axes.push_back(static_cast<size_t>(at - walk.in.axes.begin()));
    }
    if (axes.empty()) continue;
    const auto segments = segments_of(sharding, dim);
    if (segments.size() > 1) {
      layout.dims[dim] = shard_segments(walk, shape[dim], segments, axes);
    } else {
      for (const size_t axis : axes) layout.dims[dim] = sharded_dim(walk.memory.table.maps, layout.dims[dim], axis);
    }
    layout.is_dtensor = true;
  }
  layout.declared = declared_of(walk, id);
  // A style that shards parameters also makes DTensors of the ones that it replicates.
  if (style != nullptr && !style->shard_dim.empty()) layout.is_dtensor = true;
  const RuleId module_rule = walk.memory.rule_of_module[param.module];
  const StyleRow* module_style = module_rule == kNoRule ? nullptr : walk.in.plan.rules[module_rule].style;
  if (module_style != nullptr && module_style->wraps_parameters) layout.is_dtensor = true;
  if (layout.is_dtensor)
    layout.declared_shape.assign(shape.begin(), shape.end());
  else
    layout.declared.clear();
  return layout;
}

}  // namespace tpplan
