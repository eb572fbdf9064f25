#include "search/appraise.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "cost/measure_collectives.h"
#include "ops/resize_graph.h"
#include "resolve/infer/build_manifest.h"

namespace tpplan {
namespace {

const Topology& topology_of(Appraiser& appraiser, const Mesh& mesh) {
  const auto [at, is_new] = appraiser.topologies.try_emplace(to_text(mesh));
  Diagnostics ignored;  // the command has reported errors of these files
  if (is_new) at->second = read_speeds(appraiser.inputs->speeds, mesh, ignored);
  return at->second;
}

// Returns the profile of a step without a backward pass, whose memory is counted as a whole.
StepProfile flat_profile(uint64_t bytes, size_t layers) {
  StepProfile profile{.begin = static_cast<int64_t>(bytes)};
  profile.forward.resize(layers);
  profile.backward.resize(layers);
  return profile;
}

StepProfile profile_of(const std::vector<ReplaySpan>& spans, size_t layers) {
  StepProfile profile;
  profile.forward.resize(layers);
  profile.backward.resize(layers);
  bool has_begun = false;
  int64_t level = 0;
  PartSpan* outside = &profile.before;
  const auto add = [&](PartSpan& part, const ReplaySpan& span) {  // a part can have several spans
    part.peak = std::max(part.peak, part.end + static_cast<int64_t>(span.peak) - level);
    part.end += static_cast<int64_t>(span.end) - level;
    level = static_cast<int64_t>(span.end);
  };
  for (const ReplaySpan& span : spans) {
    if (!has_begun) {
      profile.begin = level = static_cast<int64_t>(span.end);
      has_begun = true;
    } else if (span.phase == StepPhase::Optimizer) {
      add(profile.optimizer, span);
    } else if (span.layer >= 0 && static_cast<size_t>(span.layer) < layers) {
      add((span.phase == StepPhase::Forward ? profile.forward : profile.backward)[static_cast<size_t>(span.layer)],
          span);
      outside = span.phase == StepPhase::Forward ? &profile.loss : &profile.after;
    } else {
      add(*outside, span);
    }
  }
  return profile;
}

}  // namespace

uint64_t active_of(const StepProfile& profile) {
  MemorySum sum;
  for (size_t i = 0; i < profile.forward.size(); ++i)
    add_layer(sum, {.forward = profile.forward[i], .backward = profile.backward[i]});
  return peak_of(sum, {.own = profile.begin,
                       .before = profile.before,
                       .loss = profile.loss,
                       .after = profile.after,
                       .optimizer = profile.optimizer});
}

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

StepFigures appraise(Appraiser& appraiser, const TpPlan& plan) {
  Diagnostics diagnostics;
  const WalkOptions walk{.infer = appraiser.inputs->infer, .trace = true};
  const CheckResult plan_result = check_plan(*appraiser.checker, plan, diagnostics, Phase::Manifest, walk);
  const auto fault = std::ranges::find_if(diagnostics.list, [](const Diagnostic& d) {
    return d.severity == Severity::Error || d.severity == Severity::Warning;
  });
  StepFigures figures;
  if (fault != diagnostics.list.end()) {
    figures.why = fmt::format("{} ({})", fault->message, kind_of(fault->code).id);
    return figures;
  }
  if (plan_result.forecast.limit != ForecastLimit::None) {
    figures.why = std::string(to_text(plan_result.forecast.limit));
    return figures;
  }
  const Run run = settled_run(appraiser.inputs->run, plan, appraiser.graph->operations);
  const Manifest manifest = build_manifest(plan, *appraiser.graph, plan_result.matches, plan_result.shardings,
                                           plan_result.boundaries, plan_result.init, plan.dialect->runtime);
  std::vector<ReplaySpan> spans;
  const RunPrice price = price_checked_run(*appraiser.graph, plan, manifest, plan_result, run,
                                           &topology_of(appraiser, plan.mesh), appraiser.inputs->scale, &spans);
  const TrainingMemory& memory = price.memory;
  const bool has_backward = !appraiser.inputs->infer && find_recipe(run.recipe)->gradient != StoredAs::None;
  if (has_backward && !memory.peak) {
    figures.why = "the memory of its step is not known";
    return figures;
  }
  if (!price.missing_figure.empty()) {
    figures.why = fmt::format("the topology has no `{}`", price.missing_figure);
    return figures;
  }
  figures.memory = memory.peak ? memory.peak->reserved : reserved_for(memory.total);
  figures.profile = has_backward ? profile_of(spans, appraiser.layers) : flat_profile(memory.total, appraiser.layers);
  figures.seconds = price.seconds;
  figures.wire = sum_calls(plan_result.forecast.calls, plan.mesh).wire;
  figures.is_right = true;
  return figures;
}

}  // namespace tpplan
