// What ranks hold of each parameter when the step begins.
#include <algorithm>

#include "walk/walk_state.h"

namespace tpplan {

Spread param_layout(Walk& walk, ParamId id, RuleId& rule) {
  const Param& param = walk.model.params[id];
  const auto shape = shape_of(walk.model, param);
  Spread layout = whole_layout(walk.table, shape);
  rule = walk.matches.params[id].rule;
  const StyleRow* style = rule == kNoRule ? nullptr : walk.plan.rules[rule].style;
  const Sharding& sharding = sharding_of(walk.shardings, id);
  for (size_t dim = 0; dim < sharding.spec.size() && dim < shape.size(); ++dim) {
    if (std::find(sharding.spec[dim].begin(), sharding.spec[dim].end(), walk.axis) == sharding.spec[dim].end())
      continue;
    const auto segments = segments_of(sharding, dim);
    layout.claim = {.kind = PlacementKind::Shard, .dim = static_cast<int>(dim)};
    if (segments.size() > 1) {
      layout.claim = {.kind = PlacementKind::StridedShard,
                      .dim = static_cast<int>(dim),
                      .split_factor = static_cast<int64_t>(segments.size())};
      RankRuns runs(walk.ranks);
      int64_t at = 0;
      for (const int64_t size : segments) {
        for (size_t rank = 0; rank < walk.ranks; ++rank)
          runs[rank].push_back(chunk({at, at + size}, static_cast<int64_t>(walk.ranks), static_cast<int64_t>(rank)));
        at += size;
      }
      layout.dims[dim] = runs_map(walk.table.maps, shape[dim], std::move(runs));
    } else {
      layout.dims[dim] = chunked_map(walk.table.maps, shape[dim]);
    }
    layout.is_dtensor = true;
  }
  // A style that cuts parameters makes DTensors of those that it leaves whole, too.
  if (style != nullptr && !style->cut_dim.empty()) layout.is_dtensor = true;
  const RuleId module_rule = walk.rule_of_module[param.module];
  const StyleRow* module_style = module_rule == kNoRule ? nullptr : walk.plan.rules[module_rule].style;
  if (module_style != nullptr && module_style->wraps_parameters) layout.is_dtensor = true;
  if (layout.is_dtensor) layout.claimed_shape.assign(shape.begin(), shape.end());
  return layout;
}

}  // namespace tpplan
