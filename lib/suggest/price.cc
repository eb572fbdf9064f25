#include "suggest/price.h"

#include "cost/count_step.h"
#include "resolve/infer/build_manifest.h"

namespace tpplan {

TrainingMemory measure_step_memory(const Manifest& manifest, const Forecast& forecast, const Recipe& recipe) {
  return forecast.infer ? measure_inference(manifest, count_results(forecast.trace))
                        : measure_training(manifest, recipe);
}

TrainingMemory measure_run_memory(const ModelGraph& graph, const TpPlan& plan, const Manifest& manifest,
                                  const CheckResult& plan_result, const Run& run, const Recipe& recipe,
                                  MemoryLog* log) {
  const Forecast& forecast = plan_result.forecast;
  TrainingMemory memory = measure_step_memory(manifest, forecast, recipe);
  if (forecast.limit == ForecastLimit::None && !forecast.infer && recipe.gradient != StoredAs::None) {
    const PatternMatches& patterns = plan_result.matches.patterns;
    TrainingMemory peak =
        measure_peak(forecast.trace, graph, plan, manifest, run, patterns.fsdp_units, patterns.remat, log);
    if (peak.peak) memory = std::move(peak);
  } else if (memory.infer && memory.has_step) {
    memory.peak = {.reserved = reserved_for(memory.total), .phase = "forward"};
  }
  return memory;
}

Price price_plan(const ModelGraph& graph, const TpPlan& plan, const CheckResult& plan_result, const WalkOptions& walk,
                 const Recipe& recipe, const Topology* topology) {
  const CheckResult& j = plan_result;
  Manifest manifest = build_manifest(plan, graph, j.matches, j.shardings, j.boundaries, j.init,
                                     walk.runtime.value_or(plan.dialect->runtime));
  Price price{.is_step_known = j.forecast.limit == ForecastLimit::None,
              .parameter_bytes = manifest.totals.max_bytes_per_rank};
  if (price.is_step_known) manifest.costs = j.costs;
  price.memory = measure_step_memory(manifest, j.forecast, recipe);
  if (!price.is_step_known) return price;
  price.sent = sum_calls(j.forecast.calls, plan.mesh);
  if (topology != nullptr && manifest.costs.is_there)
    price.time = measure_time(j.forecast.calls, plan.mesh, manifest.costs, data_axes_of(plan), *topology);
  return price;
}

}  // namespace tpplan
