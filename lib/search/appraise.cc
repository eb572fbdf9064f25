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

// Returns the run of a step with this plan, as `tpplan check` settles it.
Run settled_run(const Appraiser& appraiser, const TpPlan& plan) {
  RunFile file{.run = appraiser.inputs->run, .keys = {}};
  Diagnostics ignored;  // the search rejects keys that can contradict a plan
  settle_run(file, plan, appraiser.graph->operations, ignored);
  return std::move(file.run);
}

bool has_backward(const Appraiser& appraiser, const Run& run) {
  return !appraiser.inputs->infer && find_recipe(run.recipe)->gradient != StoredAs::None;
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
  judged.run = settled_run(appraiser, plan);
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
  const AxisId fsdp = judged.step.fsdp_axis;
  const int64_t fsdp_ranks = fsdp == kNoAxis ? 1 : mesh.axes[fsdp].size;
  figures.profile = has_backward(appraiser, judged.run) ? profile_of(spans_at(judged.log, fsdp_ranks), appraiser.layers)
                                                        : flat_profile(judged.memory, appraiser.layers);
  figures.memory = reserved_for(active_of(figures.profile));
  StepWork work = judged.step.work;
  work.own_elements = own_elements(judged.step.parameters, fsdp_ranks);
  price_step(appraiser, {work, judged.run, *find_recipe(judged.run.recipe), mesh, judged.step.data_axes, fsdp},
             figures);
  return figures;
}

StepFigures least_figures(Appraiser& appraiser, const JudgedStep& judged, const Mesh& mesh) {
  StepFigures figures{.is_right = false, .why = judged.why, .profile = flat_profile(0, appraiser.layers)};
  if (!figures.why.empty()) return figures;
  StepWork work = judged.step.work;
  work.own_elements = 0;
  price_step(appraiser, {work, judged.run, *find_recipe(judged.run.recipe), mesh, {}, kNoAxis}, figures);
  return figures;
}

StepFigures appraise(Appraiser& appraiser, const TpPlan& plan) {
  CheckedChoice checked = check_choice(appraiser, plan);
  return figures_on(appraiser, judge_step(appraiser, plan, checked), plan.mesh);
}

}  // namespace tpplan
