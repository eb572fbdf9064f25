#include "priced_run.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/text.h"
#include "cost/calibrate.h"
#include "cost/check_run.h"
#include "cost/count_step.h"
#include "cost/decode_time.h"
#include "cost/peak_memory.h"
#include "inputs.h"
#include "judge/counted_step.h"
#include "suggest/price.h"
#include "topology/read_speeds.h"
#include "topology/read_timings.h"

namespace tpplan {
namespace {

// A step that is ready to be priced. Its members refer to each other, so it does not move.
struct ReadyStep {
  SourceFile model, plan, run_file;
  Compilation compilation;  // of a measured step
  Run run;
  CountedStep counted;
  Topology topology;  // on the step's mesh
  const Mesh* mesh = nullptr;
  const Recipe* recipe = nullptr;
};

// Reports the figures that a topology lacks. Returns true if it lacks none.
bool has_figures(const std::vector<MissingFigure>& missing, const SpeedFile& file, Diagnostics& diagnostics) {
  if (missing.empty()) return true;
  std::vector<std::string> words;
  for (const MissingFigure& figure : missing)
    words.push_back(fmt::format("`{}`, which the term `{}` needs", figure.key, figure.term));
  report_message(diagnostics, Code::MissingFigure, {file.file.id, 0, 1},
                 fmt::format("the topology has no {}", join(words, ", and no ")),
                 "copy the figures from a preset (plans/topologies), or measure them");
  return false;
}

const SpeedFile& topology_file(const Session& session) {
  const auto is_topology = [](const SpeedFile& file) { return speed_file_kind(file.file) == SpeedFileKind::Topology; };
  const auto found = std::find_if(session.speeds.begin(), session.speeds.end(), is_topology);
  return found == session.speeds.end() ? session.speeds.front() : *found;
}

// Reads, compiles and counts a measured step. Reports in `step_diagnostics`, and returns false, if that fails.
bool read_step(const MeasuredStep& measured, const Session& session, ReadyStep& step, Diagnostics& step_diagnostics) {
  const std::string& topology = topology_file(session).file.name;
  if (!read_input(measured_path(topology, measured.model), kMaxModelBytes, step.model, step_diagnostics) ||
      !read_input(measured_path(topology, measured.plan), YamlLimits{}.bytes, step.plan, step_diagnostics))
    return false;
  RunFile run = read_run_input(measured_path(topology, measured.run), step.run_file, step_diagnostics);
  if (has_errors(step_diagnostics)) return false;
  step.compilation = compile({.model = step.model,
                              .plan = step.plan,
                              .mesh_sizes = {},
                              .walk = {.trace = true},
                              .step = {.batch = run.run.batch, .sequence = run.run.sequence},
                              .use = ManifestUse::Totals},
                             step_diagnostics);
  if (has_errors(step_diagnostics) || step.compilation.reached != Phase::Manifest) return false;
  check_run(run, step.compilation.plan, step_diagnostics);
  step.run = std::move(run.run);
  const Compilation& c = step.compilation;
  step.counted = count_checked_step(c.graph, c.plan, c.plan_result, step.run);
  step.mesh = &c.plan.mesh;
  step.recipe = find_recipe(step.run.recipe);
  step.topology = read_speeds(session.speeds, c.plan.mesh, step_diagnostics);
  return !has_errors(step_diagnostics) && step.counted.work.is_there;
}

std::string first_error(const Diagnostics& diagnostics) {
  for (const Diagnostic& d : diagnostics.list) {
    if (d.severity == Severity::Error) return d.message;
  }
  return "its operations are not all known";
}

StepSetting setting_of_step(const ReadyStep& step) {
  return setting_of(step.counted, step.run, *step.recipe, *step.mesh);
}

double seconds_of(const ReadyStep& step, const AssumptionScale& scale) {
  return step_seconds(setting_of_step(step), step.topology, scale).seconds;
}

// Reads the topology's measured steps. Reports at its entry a step that cannot be priced.
std::deque<ReadyStep> read_steps(Session& session, const Topology& topology) {
  std::deque<ReadyStep> steps;
  for (const MeasuredStep& measured : topology.calibrate) {
    Diagnostics step_diagnostics;
    ReadyStep& step = steps.emplace_back();
    if (!read_step(measured, session, step, step_diagnostics)) {
      report_message(
          session.diagnostics, Code::InvalidTopology, measured.span,
          fmt::format("the measured step `{}` cannot be priced: {}", measured.run, first_error(step_diagnostics)),
          "run `tpplan check MODEL PLAN --run RUN` on its files; paths are relative to the topology");
      continue;
    }
    std::ignore =
        has_figures(missing_figures(setting_of_step(step), step.topology), topology_file(session), session.diagnostics);
  }
  return steps;
}

void warn_of_contradiction(Session& session, const Topology& topology, const std::vector<double>& residuals) {
  const auto [least, most] = std::minmax_element(residuals.begin(), residuals.end());
  const MeasuredStep& fast = topology.calibrate[static_cast<size_t>(least - residuals.begin())];
  const MeasuredStep& slow = topology.calibrate[static_cast<size_t>(most - residuals.begin())];
  constexpr double kPercent = 100;
  Diagnostic& d = report_message(
      session.diagnostics, Code::ContradictingSteps, slow.span,
      fmt::format("the measured steps contradict each other: `{}` takes {:.0f} % longer than computed, `{}` {:.0f} %",
                  slow.run, (std::exp(*most) - 1) * kPercent, fast.run, (std::exp(*least) - 1) * kPercent),
      "check the seconds and the runs of both; no efficiencies of matmuls and attention explain both");
  d.notes.push_back({"the other step", fast.span});
}

// Fits the topology's efficiencies to its measured steps.
Calibration calibrate_steps(Session& session, const Topology& topology, const std::deque<ReadyStep>& steps,
                            PrintedStepTime& answer) {
  std::vector<TimedEntry> entries;
  for (size_t i = 0; i < steps.size(); ++i) {
    const ReadyStep& step = steps[i];
    entries.push_back({.predicted = [&step](const AssumptionScale& scale) { return seconds_of(step, scale); },
                       .measured = topology.calibrate[i].seconds});
  }
  Calibration found = calibrate(entries);
  for (size_t i = 0; i < steps.size(); ++i)
    answer.residuals.push_back({.run = topology.calibrate[i].run,
                                .measured = entries[i].measured,
                                .predicted = entries[i].measured / std::exp(found.residuals[i])});
  if (found.is_contradictory) warn_of_contradiction(session, topology, found.residuals);
  return found;
}

std::optional<PricedRun> price_training(Session& session, const Run& run, Topology topology) {
  const Compilation& c = session.compilation;
  const CountedStep counted = count_checked_step(c.graph, c.plan, c.plan_result, run);
  const StepSetting setting = setting_of(counted, run, *find_recipe(run.recipe), c.plan.mesh);
  if (!has_figures(missing_figures(setting, topology), topology_file(session), session.diagnostics))
    return std::nullopt;
  if (!counted.work.is_there) return std::nullopt;
  const std::deque<ReadyStep> steps = read_steps(session, topology);
  if (has_errors(session.diagnostics)) return std::nullopt;
  PricedRun priced;
  const Calibration found = calibrate_steps(session, topology, steps, priced.answer);
  const auto seconds = [&](const AssumptionScale& scale) { return step_seconds(setting, topology, scale).seconds; };
  if (!counted.has_backward) priced.answer.kind = "inference";
  priced.answer.scale = found.scale;
  priced.answer.step = step_seconds(setting, topology, found.scale);
  if (priced.answer.step.seconds <= 0) return std::nullopt;
  priced.answer.interval = step_interval(seconds, found.scale, found.covariance);
  priced.topology = std::move(topology);
  return priced;
}

KvCache cache_of(const CountedStep& counted, const StepRequest& request) {
  return kv_cache(counted.work, request.run, request.context,
                  request.cache_dtype.empty() ? std::nullopt : std::optional(dtype_of(request.cache_dtype)));
}

std::optional<PricedRun> price_decode(Session& session, const StepRequest& request, Topology topology) {
  const Run& run = request.run;
  const Compilation& c = session.compilation;
  const CountedStep counted = count_checked_step(c.graph, c.plan, c.plan_result, run);
  if (!counted.work.is_there) return std::nullopt;
  if (!has_figures(missing_decode_figures(topology), topology_file(session), session.diagnostics)) return std::nullopt;
  const KvCache cache = cache_of(counted, request);
  const DecodeSetting setting{.work = counted.work,
                              .parameters = counted.parameters,
                              .model = c.graph,
                              .run = run,
                              .mesh = c.plan.mesh,
                              .cache = cache};
  const auto seconds = [&](const AssumptionScale& scale) { return decode_seconds(setting, topology, scale).seconds; };
  PricedRun priced;
  priced.answer.kind = "decode";
  priced.answer.step = decode_seconds(setting, topology);
  if (priced.answer.step.seconds <= 0) return std::nullopt;
  priced.answer.interval = step_interval(seconds, kAsGiven, prior_covariance());
  priced.topology = std::move(topology);
  return priced;
}

// Returns the time of the session's step; empty if its operations are not known, or after reporting a figure that the
// topology lacks or a measured step that cannot be priced.
std::optional<PricedRun> price_step(Session& session, const StepRequest& request) {
  Topology topology = read_speeds(session.speeds, session.compilation.plan.mesh, session.diagnostics);
  if (has_errors(session.diagnostics)) return std::nullopt;
  return request.decodes ? price_decode(session, request, std::move(topology))
                         : price_training(session, request.run, std::move(topology));
}

// Returns the memory of inference with a cache. A decode step returns one token of each sequence.
TrainingMemory measure_served(const Compilation& c, const StepRequest& request) {
  const Forecast& forecast = c.plan_result.forecast;
  std::optional<uint64_t> results = output_bytes_of_step(forecast.trace);
  const auto steps = static_cast<uint64_t>(std::max<int64_t>(request.decodes ? request.run.sequence : 1, 1));
  if (results) *results /= steps;
  const CountedStep counted = count_checked_step(c.graph, c.plan, c.plan_result, request.run);
  std::optional<MemoryTerm> term;
  if (counted.work.is_there) {
    const KvCache cache = cache_of(counted, request);
    term = {.name = "keys and values",
            .bytes = static_cast<uint64_t>(std::min(cache_bytes(cache), 9e18)),
            .formula = cache_formula(cache)};
  }
  TrainingMemory memory = measure_inference(c.manifest, results, term);
  if (memory.has_step && !memory.overflow)
    memory.peak = {.reserved = reserved_bytes_for(memory.total), .phase = "forward"};
  return memory;
}

TrainingMemory memory_of_step(const Compilation& c, const StepRequest& request, MemoryLog* log) {
  const Forecast& forecast = c.plan_result.forecast;
  const Recipe& recipe = *find_recipe(request.run.recipe);
  if (forecast.infer && request.context > 0) return measure_served(c, request);
  return request.has_run ? measure_run_memory(c.graph, c.plan, c.manifest, c.plan_result, request.run, recipe, log)
                         : measure_step_memory(c.manifest, forecast, recipe);
}

}  // namespace

RunFile read_session_run(Session& session, const std::string& path, std::string_view recipe, InputArguments& inputs) {
  RunFile file = path.empty() ? RunFile{} : read_run_input(path, session.run, session.diagnostics);
  const auto override = [&file](std::string_view key, bool is_given, auto& value, const auto& new_value) {
    if (!is_given) return;
    value = new_value;
    if (std::ranges::find(file.run.given, key) == file.run.given.end()) file.run.given.emplace_back(key);
  };
  override("batch", inputs.batch > 0, file.run.batch, inputs.batch);
  override("sequence", inputs.sequence > 0, file.run.sequence, inputs.sequence);
  override("recipe", !recipe.empty(), file.run.recipe, recipe);
  inputs.batch = file.run.batch;
  inputs.sequence = file.run.sequence;
  return file;
}

StepNumbers step_numbers(Session& session, const StepRequest& request) {
  StepNumbers numbers;
  const Compilation& c = session.compilation;
  if (c.reached != Phase::Manifest || has_errors(session.diagnostics)) return numbers;
  MemoryLog log;
  numbers.memory = memory_of_step(c, request, request.draws ? &log : nullptr);
  numbers.spans = std::move(log.spans);
  numbers.has_memory = true;
  if (request.speeds.empty() || !read_speed_files(request.speeds, 4, session.speeds, session.diagnostics))
    return numbers;
  if (request.has_run) {
    numbers.priced = price_step(session, request);
    if (numbers.priced) numbers.memory.capacity = capacity_of(numbers.priced->topology);
    numbers.is_requested = !has_errors(session.diagnostics);
    return numbers;
  }
  numbers.timed = time_manifest(c.manifest, session.speeds, session.diagnostics);
  if (numbers.timed) numbers.memory.capacity = capacity_of(numbers.timed->topology);
  return numbers;
}

AssumptionScale fitted_scale(Session& session, const Topology& topology) {
  const std::deque<ReadyStep> steps = read_steps(session, topology);
  PrintedStepTime answer;
  return has_errors(session.diagnostics) ? kAsGiven : calibrate_steps(session, topology, steps, answer).scale;
}

}  // namespace tpplan
