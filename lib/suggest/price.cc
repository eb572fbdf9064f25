#include "suggest/price.h"

#include "cost/check_run.h"
#include "cost/count_step.h"
#include "judge/counted_step.h"
#include "ops/resize_graph.h"
#include "resolve/infer/apply_init.h"
#include "resolve/infer/build_manifest.h"

namespace tpplan {

TrainingMemory measure_step_memory(const Manifest& manifest, const Forecast& forecast, const Recipe& recipe) {
  return forecast.infer ? measure_inference(manifest, output_bytes_of_step(forecast.trace))
                        : measure_training(manifest, recipe);
}

TrainingMemory measure_run_memory(const ModelGraph& graph, const TpPlan& plan, const Manifest& manifest,
                                  const CheckResult& plan_result, const Run& run, const Recipe& recipe,
                                  MemoryLog* log) {
  const Forecast& forecast = plan_result.forecast;
  TrainingMemory memory = measure_step_memory(manifest, forecast, recipe);
  if (forecast.limit == ForecastLimit::None && !forecast.infer && recipe.gradient != ElementDtype::None) {
    const PatternMatches& patterns = plan_result.matches.patterns;
    TrainingMemory peak =
        measure_peak(forecast.trace, graph, plan, manifest, run, patterns.fsdp_units, patterns.remat, log);
    if (peak.peak) memory = std::move(peak);
  } else if (memory.infer && memory.has_step) {
    memory.peak = {.reserved = reserved_bytes_for(memory.total), .phase = "forward"};
  }
  return memory;
}

Run completed_run(const Run& run, const TpPlan& plan, const OpGraph& graph) {
  RunFile file{.run = run, .keys = {}};
  Diagnostics ignored;
  complete_run(file, plan, graph, ignored);
  return std::move(file.run);
}

RunPrice price_checked_run(const ModelGraph& graph, const TpPlan& plan, const Manifest& manifest,
                           const CheckResult& plan_result, const Run& run, const Topology* topology,
                           const AssumptionScale& scale) {
  const Recipe& recipe = *find_recipe(run.recipe);
  RunPrice price{.memory = measure_run_memory(graph, plan, manifest, plan_result, run, recipe)};
  if (topology == nullptr) return price;
  const CountedStep step = count_checked_step(graph, plan, plan_result, run);
  if (!step.work.is_there) return price;
  const StepSetting setting = setting_of(step, run, recipe, plan.mesh);
  const auto missing = missing_figures(setting, *topology);
  if (missing.empty())
    price.seconds = step_seconds(setting, *topology, scale).seconds;
  else
    price.missing_figure = missing.front().key;
  return price;
}

std::optional<TrainingMemory> memory_of_plan(const ModelGraph& model, const TpPlan& plan, const CostInputs& inputs,
                                             Diagnostics& diagnostics) {
  ModelGraph graph = model;
  if (!resize_graph(graph.operations, model.file, {.batch = inputs.run.batch, .sequence = inputs.run.sequence},
                    diagnostics))
    return std::nullopt;
  const Topology topology = read_speeds(inputs.speeds, plan.mesh, diagnostics);
  if (has_errors(diagnostics)) return std::nullopt;
  Checker checker = make_checker(graph);
  Diagnostics ignored;
  const CheckResult j = check_plan(checker, plan, ignored, Phase::Manifest, {.infer = inputs.infer, .trace = true});
  if (has_errors(ignored)) return std::nullopt;
  Manifest manifest = build_manifest(plan, graph, j.matches, j.shardings, j.boundaries, j.init, plan.dialect->runtime);
  manifest.costs = j.costs;
  const Run run = completed_run(inputs.run, plan, graph.operations);
  TrainingMemory memory = price_checked_run(graph, plan, manifest, j, run, nullptr, inputs.scale).memory;
  memory.capacity = capacity_of(topology);
  return memory;
}

uint64_t largest_parameter_bytes(const ModelGraph& graph, const TpPlan& plan, const CheckResult& j,
                                 const WalkOptions& walk) {
  Diagnostics ignored;
  const InitTable init = apply_init(plan, graph, j.matches, j.shardings, ignored);
  return build_manifest(plan, graph, j.matches, j.shardings, j.boundaries, init,
                        walk.runtime.value_or(plan.dialect->runtime))
      .totals.max_bytes_per_rank;
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
