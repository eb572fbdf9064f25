#include "infer/grad_reduce.h"

namespace tpplan {

std::vector<GradReduce> grad_reduce_of(const TpPlan& plan, const Sharding& sharding, RuleId rule) {
  std::vector<GradReduce> reduces;
  for (size_t i = 0; i < plan.mesh.axes.size(); ++i) {
    const auto axis = static_cast<AxisId>(i);
    const bool style = rule != kNoRule && plan.rules[rule].style != nullptr && plan.rules[rule].axis == axis &&
                       plan.rules[rule].style->sums_parameter_gradients;
    if (!is_data_axis(plan, axis) && !style) continue;
    reduces.push_back(
        {axis, uses_axis(sharding.spec, axis) ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce});
  }
  return reduces;
}

}  // namespace tpplan
