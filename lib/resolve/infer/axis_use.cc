#include "resolve/infer/axis_use.h"

namespace tpplan {

std::vector<bool> used_axes(const TpPlan& plan, const MatchTable& matches, const ShardingTable& table) {
  std::vector<bool> used(plan.mesh.axes.size());
  for (const Sharding& sharding : table.shardings) {
    for (const DimAxes& axes : sharding.spec) {
      for (const AxisId axis : axes) used[axis] = true;
    }
  }
  for (const BoundaryMatch& match : matches.boundaries) {
    if (plan.rules[match.rule].axis != kNoAxis) used[plan.rules[match.rule].axis] = true;
  }
  if (plan.data) {
    for (const AxisId axis : plan.data->axes) used[axis] = true;
  }
  return used;
}

}  // namespace tpplan
