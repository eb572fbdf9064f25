#include "judge/counted_step.h"

#include "sharding/shard_slice.h"

namespace tpplan {
namespace {

// Returns the trained parameters of rank 0. Tied ones count once.
std::vector<StepParameter> step_parameters(const ModelGraph& graph, const TpPlan& plan,
                                           const ShardingTable& shardings) {
  const std::vector<int64_t> first(plan.mesh.axes.size(), 0);
  std::vector<bool> follows(graph.params.size(), false), is_shared(graph.params.size(), false);
  for (const auto& [follower, owner] : shardings.followers) {
    follows[follower] = true;
    is_shared[owner] = true;
  }
  std::vector<StepParameter> parameters;
  for (ParamId id = 0; id < graph.params.size(); ++id) {
    const Param& param = graph.params[id];
    if (follows[id] || !is_trainable(param.dtype)) continue;
    const Sharding by_rule = sharding_by_rule(shardings, plan, id);
    const auto local = local_shape(shape_of(graph, param), by_rule, plan.mesh, first);
    parameters.push_back({.module = param.module,
                          .dtype = param.dtype,
                          .elements = static_cast<double>(elements_of(local)),
                          .is_gathered = plan.fsdp && uses_axis(sharding_of(shardings, id).spec, plan.fsdp->axis),
                          .is_shared = is_shared[id]});
  }
  return parameters;
}

}  // namespace

CountedStep count_checked_step(const ModelGraph& graph, const TpPlan& plan, const CheckResult& result, const Run& run) {
  CountedStep step{.parameters = step_parameters(graph, plan, result.shardings),
                   .data_axes = data_axes_of(plan),
                   .has_backward = !result.forecast.infer};
  if (plan.fsdp) step.fsdp_axis = plan.fsdp->axis;
  const StepSource source{.trace = result.forecast.trace,
                          .model = graph,
                          .parameters = step.parameters,
                          .calls = result.forecast.calls,
                          .mesh = plan.mesh,
                          .data_axes = step.data_axes,
                          .remat = result.matches.patterns.remat};
  step.work = count_step_work(source, run);
  return step;
}

int64_t fsdp_ranks_of(const CountedStep& step, const Mesh& mesh) {
  return step.fsdp_axis == kNoAxis ? 1 : mesh.axes[step.fsdp_axis].size;
}

StepSetting setting_of(const CountedStep& step, const Run& run, const Recipe& recipe, const Mesh& mesh) {
  return {.work = step.work,
          .run = run,
          .recipe = recipe,
          .mesh = mesh,
          .data_axes = step.data_axes,
          .fsdp_axis = step.fsdp_axis,
          .updated_elements = updated_elements(step.parameters, fsdp_ranks_of(step, mesh)),
          .has_backward = step.has_backward};
}

}  // namespace tpplan
