#include "walk/param_layouts.h"

#include <algorithm>

namespace tpplan {
namespace {

// Segments cut each by itself, by one axis after the other.
MapId cut_segments(Walk& walk, int64_t size, std::span<const int64_t> segments, std::span<const size_t> axes) {
  MapTable& maps = walk.table.maps;
  RankRuns runs(walk.ranks);
  int64_t at = 0;
  for (const int64_t segment : segments) {
    for (size_t rank = 0; rank < walk.ranks; ++rank) {
      Interval run{at, at + segment};
      for (const size_t axis : axes)
        run = chunk(run, static_cast<int64_t>(maps.axes[axis]), static_cast<int64_t>(coordinate(maps, rank, axis)));
      runs[rank].push_back(run);
    }
    at += segment;
  }
  return runs_map(maps, size, std::move(runs));
}

Claim make_claim(const Walk& walk, const Sharding& sharding) {
  Mesh mesh;
  for (const AxisId axis : walk.axes) mesh.axes.push_back(walk.plan.mesh.axes[axis]);
  PartitionSpec spec(sharding.spec.size());
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    for (const AxisId axis : sharding.spec[dim]) {
      const auto at = std::find(walk.axes.begin(), walk.axes.end(), axis);
      if (at != walk.axes.end()) spec[dim].push_back(static_cast<AxisId>(at - walk.axes.begin()));
    }
  }
  Claim claim = placements_of({spec, {}}, mesh).value_or(whole_claim(walk));
  for (Placement& placement : claim) {
    if (!is_shard(placement)) continue;
    const auto segments = segments_of(sharding, static_cast<size_t>(placement.dim));
    if (segments.size() > 1 && placement.kind == PlacementKind::Shard)
      placement = {.kind = PlacementKind::StridedShard,
                   .dim = placement.dim,
                   .split_factor = static_cast<int64_t>(segments.size())};
  }
  return claim;
}

// Torch's placements of a parameter's spec on the walk's axes alone; segments are strided.
const Claim& claim_of(Walk& walk, ParamId id) {
  const auto [known, is_new] = walk.claim_of_sharding.try_emplace(walk.shardings.params[id].sharding);
  if (is_new) known->second = make_claim(walk, sharding_of(walk.shardings, id));
  return known->second;
}

}  // namespace

Spread param_layout(Walk& walk, ParamId id, RuleId& rule) {
  const Param& param = walk.model.params[id];
  const auto shape = shape_of(walk.model, param);
  Spread layout = whole_layout(walk.table, shape);
  rule = walk.matches.params[id].rule;
  const StyleRow* style = rule == kNoRule ? nullptr : walk.plan.rules[rule].style;
  const Sharding& sharding = sharding_of(walk.shardings, id);
  for (size_t dim = 0; dim < sharding.spec.size() && dim < shape.size(); ++dim) {
    std::vector<size_t> axes;
    for (const AxisId axis : sharding.spec[dim]) {
      const auto at = std::find(walk.axes.begin(), walk.axes.end(), axis);
      if (at != walk.axes.end()) axes.push_back(static_cast<size_t>(at - walk.axes.begin()));
    }
    if (axes.empty()) continue;
    const auto segments = segments_of(sharding, dim);
    if (segments.size() > 1) {
      layout.dims[dim] = cut_segments(walk, shape[dim], segments, axes);
    } else {
      for (const size_t axis : axes) layout.dims[dim] = cut_map(walk.table.maps, layout.dims[dim], axis);
    }
    layout.is_dtensor = true;
  }
  layout.claim = claim_of(walk, id);
  // A style that cuts parameters makes DTensors of those that it leaves whole, too.
  if (style != nullptr && !style->cut_dim.empty()) layout.is_dtensor = true;
  const RuleId module_rule = walk.rule_of_module[param.module];
  const StyleRow* module_style = module_rule == kNoRule ? nullptr : walk.plan.rules[module_rule].style;
  if (module_style != nullptr && module_style->wraps_parameters) layout.is_dtensor = true;
  if (layout.is_dtensor)
    layout.claimed_shape.assign(shape.begin(), shape.end());
  else
    layout.claim.clear();
  return layout;
}

}  // namespace tpplan
