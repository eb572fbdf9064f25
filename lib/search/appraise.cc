#include "search/appraise.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "cost/check_run.h"
#include "cost/measure_collectives.h"
#include "judge/counted_step.h"
#include "ops/resize_graph.h"
#include "resolve/infer/build_manifest.h"
#include "resolve/match/match_patterns.h"
#include "suggest/price.h"

namespace tpplan {
namespace {

const Topology& topology_of(Appraiser& appraiser, const Mesh& mesh) {
  const auto [at, is_new] = appraiser.topologies.try_emplace(to_text(mesh));
  Diagnostics ignored;  // the command has reported errors of these files
  if (is_new) at->second = read_speeds(appraiser.inputs->speeds, mesh, ignored);
  return at->second;
}

bool has_backward(const Appraiser& appraiser, const Run& run) {
  return !appraiser.inputs->infer && find_recipe(run.recipe)->gradient != ElementDtype::None;
}

// Sets the seconds of the figures.
void price_step(Appraiser& appraiser, const StepSetting& setting, StepFigures& figures) {
  const Topology& topology = topology_of(appraiser, setting.mesh);
  if (const auto missing = missing_figures(setting, topology); !missing.empty()) {
    figures.why = fmt::format("the topology has no `{}`", missing.front().key);
    return;
  }
  figures.seconds = step_seconds(setting, topology, appraiser.inputs->scale).seconds;
  figures.is_right = true;
}

}  // namespace

Appraiser make_appraiser(const ModelGraph& model, const CostInputs& inputs, int64_t batch, int64_t sequence,
                         size_t layers, std::string& why) {
  Appraiser appraiser{.inputs = &inputs,
                      .graph = std::make_unique<ModelGraph>(model),
                      .checker = {},
                      .topologies = {},
                      .layers = layers};
  Diagnostics diagnostics;
  if (!resize_graph(appraiser.graph->operations, model.file, {.batch = batch, .sequence = sequence}, diagnostics)) {
    const Diagnostic& fault = diagnostics.list.front();
    why = fmt::format("{} ({})", fault.message, kind_of(fault.code).id);
    appraiser.graph.reset();
    return appraiser;
  }
  appraiser.checker.reset(new Checker(make_checker(*appraiser.graph)));
  return appraiser;
}

CheckedChoice check_choice(Appraiser& appraiser, const TpPlan& plan) {
  CheckedChoice checked;
  Diagnostics diagnostics;
  const WalkOptions walk{.infer = appraiser.inputs->infer, .trace = true};
  checked.result = check_plan(*appraiser.checker, plan, diagnostics, Phase::Manifest, walk);
  const auto fault = std::ranges::find_if(diagnostics.list, [](const Diagnostic& d) {
    return d.severity == Severity::Error || d.severity == Severity::Warning;
  });
  if (fault != diagnostics.list.end())
    checked.why = fmt::format("{} ({})", fault->message, kind_of(fault->code).id);
  else if (checked.result.forecast.limit != ForecastLimit::None)
    checked.why = std::string(to_text(checked.result.forecast.limit));
  if (!checked.why.empty()) return checked;
  const CheckResult& result = checked.result;
  checked.manifest = build_manifest(plan, *appraiser.graph, result.matches, result.shardings, result.boundaries,
                                    result.init, plan.dialect->runtime);
  return checked;
}

JudgedStep judge_step(const Appraiser& appraiser, const TpPlan& plan, CheckedChoice& checked) {
  JudgedStep judged{.why = checked.why, .run = {}, .step = {}, .log = {}};
  if (!judged.why.empty()) return judged;
  Diagnostics ignored;  // a glob of layers that the model does not have cannot be made
  checked.result.matches.patterns.remat = match_patterns(plan, *appraiser.graph, ignored).remat;
  judged.run = completed_run(appraiser.inputs->run, plan, appraiser.graph->operations);
  const Recipe& recipe = *find_recipe(judged.run.recipe);
  const TrainingMemory memory =
      measure_run_memory(*appraiser.graph, plan, checked.manifest, checked.result, judged.run, recipe, &judged.log);
  judged.memory = memory.total;
  if (has_backward(appraiser, judged.run) && !memory.peak) judged.why = "the memory of its step is not known";
  judged.step = count_checked_step(*appraiser.graph, plan, checked.result, judged.run);
  judged.wire = sum_calls(checked.result.forecast.calls, plan.mesh).wire;
  return judged;
}

StepFigures figures_on(Appraiser& appraiser, const JudgedStep& judged, const Mesh& mesh) {
  StepFigures figures{.is_right = false, .why = judged.why, .wire = judged.wire, .profile = {}};
  if (!figures.why.empty()) return figures;
  figures.active = judged.memory;
  figures.profile = flat_profile(judged.memory, appraiser.layers);
  if (has_backward(appraiser, judged.run)) {
    const std::vector<StagedSpan> spans = stages_at(judged.log, fsdp_ranks_of(judged.step, mesh));
    figures.active = peak_of(spans);
    if (appraiser.layers > 0) figures.profile = profile_of(spans, appraiser.layers);
  }
  figures.memory = reserved_bytes_for(figures.active);
  price_step(appraiser, setting_of(judged.step, judged.run, *find_recipe(judged.run.recipe), mesh), figures);
  return figures;
}

StepFigures least_figures(Appraiser& appraiser, const JudgedStep& judged, const Mesh& mesh) {
  StepFigures figures{.is_right = false, .why = judged.why, .profile = flat_profile(0, appraiser.layers)};
  if (!figures.why.empty()) return figures;
  StepSetting setting = setting_of(judged.step, judged.run, *find_recipe(judged.run.recipe), mesh);
  setting.data_axes = {};
  setting.fsdp_axis = kNoAxis;
  setting.updated_elements = 0;
  price_step(appraiser, setting, figures);
  return figures;
}

StepFigures appraise(Appraiser& appraiser, const TpPlan& plan) {
  CheckedChoice checked = check_choice(appraiser, plan);
  return figures_on(appraiser, judge_step(appraiser, plan, checked), plan.mesh);
}

}  // namespace tpplan
