#include "resolve/infer/grad_reduce.h"

namespace tpplan {

Reduction data_grad_reduction(PlanRuntime runtime) {
  return runtime == PlanRuntime::Tpplan ? Reduction::Sum : Reduction::Mean;
}

AxisId grad_reduce_axis(const PlanRule& rule) {
  return rule.style != nullptr && rule.style->sums_parameter_gradients ? rule.axis : kNoAxis;
}

std::vector<GradReduce> grad_reduce_of(const TpPlan& plan, const Sharding& sharding, RuleId rule, PlanRuntime runtime) {
  std::vector<GradReduce> reduces;
  for (size_t i = 0; i < plan.mesh.axes.size(); ++i) {
    const auto axis = static_cast<AxisId>(i);
    const bool style = rule != kNoRule && grad_reduce_axis(plan.rules[rule]) == axis;
    if (!is_data_axis(plan, axis) && !style) continue;
    const bool is_fsdp = plan.fsdp && plan.fsdp->axis == axis;
    reduces.push_back(
        {.axis = axis,
         .kind = uses_axis(sharding.spec, axis) ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce,
         .by = !is_data_axis(plan, axis)        ? GradReducer::Module
               : runtime == PlanRuntime::Tpplan ? GradReducer::Tpplan
               : is_fsdp                        ? GradReducer::Fsdp
                                                : GradReducer::Ddp});
  }
  return reduces;
}

}  // namespace tpplan
