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
  return !appraiser.inputs->infer && find_recipe(run.recipe)->gradient != StoredAs::None;
}

// Returns the profile of a step without a backward pass, whose memory is counted as a whole.
StepProfile flat_profile(uint64_t bytes, size_t layers) {
  return {.ends = {.own = static_cast<int64_t>(bytes)}, .layers = std::vector<LayerMemory>(layers)};
}

bool is_change(const SpanStage& stage, UnitBuffer buffer, bool is_freed) {
  return stage.changed == buffer && stage.is_freed == is_freed;
}

void raise(int64_t& peak, int64_t to) { peak = std::max(peak, to); }

// The unit before gives its buffer back once the layer's weights are gathered.
void add_forward(LayerMemory& layer, const StagedSpan& span) {
  const auto gathers = std::ranges::find_if(
      span.stages, [](const SpanStage& stage) { return is_change(stage, UnitBuffer::Gathered, false); });
  layer.is_sharded = gathers != span.stages.end();
  if (layer.is_sharded) layer.output = gathers->change;
  bool is_before = layer.is_sharded;
  for (const SpanStage& stage : span.stages) {
    if (is_change(stage, UnitBuffer::Gathered, true)) is_before = false;
    raise(is_before ? layer.gather : layer.forward, stage.peak);
  }
  layer.saved = span.end;
}

void add_backward(LayerMemory& layer, const StagedSpan& span) {
  int64_t* part = layer.is_sharded ? &layer.regather : &layer.backward;
  for (const SpanStage& stage : span.stages) {
    if (is_change(stage, UnitBuffer::Gathered, true)) part = &layer.backward;
    if (is_change(stage, UnitBuffer::Reduced, false)) {
      part = &layer.reduce;
      layer.reduced = stage.change;
    }
    raise(*part, stage.peak);
  }
  layer.freed = span.end;
}

void add_before(EndMemory& ends, const StagedSpan& span) {
  for (const SpanStage& stage : span.stages) {
    if (is_change(stage, UnitBuffer::Gathered, false)) ends.output = stage.change;
    raise(ends.before, ends.begin + stage.peak + stage.buffers);
  }
  ends.begin += span.end;
}

// The buffer of the last all_gather is freed before the loss; then the last layer's weights are gathered again.
void add_loss(EndMemory& ends, const StagedSpan& span) {
  for (const SpanStage& stage : span.stages) {
    int64_t& peak = is_change(stage, UnitBuffer::Gathered, false)            ? ends.prefetch
                    : stage.changed == UnitBuffer::None && stage.buffers > 0 ? ends.tail
                                                                             : ends.loss;
    raise(peak, ends.loss_end + stage.peak);
  }
  ends.loss_end += span.end;
}

void add_after(EndMemory& ends, const StagedSpan& span) {
  for (const SpanStage& stage : span.stages) {
    const bool has_layer = stage.changed == UnitBuffer::None && stage.buffers > 0;
    raise(has_layer ? ends.after : ends.root, ends.after_end + stage.peak + (has_layer ? 0 : stage.buffers));
  }
  ends.after_end += span.end;
}

StepProfile profile_of(const std::vector<StagedSpan>& spans, size_t layers) {
  StepProfile profile{.ends = {.own = spans.front().end}, .layers = std::vector<LayerMemory>(layers)};
  EndMemory& ends = profile.ends;
  size_t ran = 0;  // layers, forward and backward
  for (const StagedSpan& span : std::span(spans).subspan(1)) {
    if (span.phase == StepPhase::Optimizer) {
      for (const SpanStage& stage : span.stages) raise(ends.optimizer, stage.peak);
    } else if (span.layer >= 0 && static_cast<size_t>(span.layer) < layers) {
      (span.phase == StepPhase::Forward ? add_forward : add_backward)(profile.layers[static_cast<size_t>(span.layer)],
                                                                      span);
      ++ran;
    } else if (ran == 0) {
      add_before(ends, span);
    } else if (ran == layers) {
      add_loss(ends, span);
    } else if (ran == 2 * layers) {
      add_after(ends, span);
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
  judged.run = settled_run(appraiser.inputs->run, plan, appraiser.graph->operations);
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
  figures.memory = reserved_for(figures.active);
  price_step(appraiser, setting_of(judged.step, judged.run, *find_recipe(judged.run.recipe), mesh), figures);
  return figures;
}

StepFigures least_figures(Appraiser& appraiser, const JudgedStep& judged, const Mesh& mesh) {
  StepFigures figures{.is_right = false, .why = judged.why, .profile = flat_profile(0, appraiser.layers)};
  if (!figures.why.empty()) return figures;
  StepSetting setting = setting_of(judged.step, judged.run, *find_recipe(judged.run.recipe), mesh);
  setting.data_axes = {};
  setting.fsdp_axis = kNoAxis;
  setting.own_elements = 0;
  price_step(appraiser, setting, figures);
  return figures;
}

StepFigures appraise(Appraiser& appraiser, const TpPlan& plan) {
  CheckedChoice checked = check_choice(appraiser, plan);
  return figures_on(appraiser, judge_step(appraiser, plan, checked), plan.mesh);
}

}  // namespace tpplan
