#include "compile.h"

#include <spdlog/fmt/fmt.h>

#include <tuple>
#include <utility>

#include "base/sha256.h"
#include "manifest/write_manifest.h"
#include "model/print_graph.h"
#include "model/print_model.h"
#include "model/read_model.h"
#include "ops/prove_shapes.h"
#include "plan/plan_edits.h"
#include "resolve/infer/build_manifest.h"
#include "resolve/infer/plain_parameters.h"
#include "resolve/match/match_plan.h"
#include "suggest/check_program_dims.h"
#include "suggest/check_program_rules.h"
#include "suggest/find_fixes.h"
#include "suggest/join_size_diagnostics.h"
#include "suggest/smallest_examples.h"

namespace tpplan {

namespace {

// Marks errors that transformers detects as failures at plan application.
void mark_rejected(const TpPlan& plan, Diagnostics& diagnostics) {
  if (plan.dialect->runtime != PlanRuntime::Transformers) return;
  for (Diagnostic& d : diagnostics.list) {
    const bool rejected = d.severity == Severity::Error && kind_of(d.code).failure == Failure::Content;
    if (rejected && d.fails == FirstFailure::None) d.fails = FirstFailure::Apply;
  }
}

Compilation run_phases(const CompileInputs& inputs, Diagnostics& diagnostics) {
  Compilation c;
  c.graph = read_model(inputs.model, diagnostics);
  const bool fits =
      has_errors(diagnostics) || (prove_shapes(c.graph.operations, c.graph.file, diagnostics) &&
                                  resize_graph(c.graph.operations, c.graph.file, inputs.step, diagnostics));
  c.plan = read_plan(inputs.plan, inputs.mesh_sizes, diagnostics);  // also after model errors, to report both
  if (inputs.last <= Phase::Graph || !fits) return c;
  c.reached = Phase::Plan;
  mark_rejected(c.plan, diagnostics);
  if (inputs.last == Phase::Plan || has_errors(diagnostics)) return c;
  WalkOptions walk = inputs.walk;
  walk.listing = inputs.last == Phase::Operations;
  Checker checker = make_checker(c.graph);
  checker.is_known = inputs.is_known;
  c.plan_result = check_plan(checker, c.plan, diagnostics, inputs.last, walk);
  c.reached = c.plan_result.reached;
  c.is_checked = c.reached >= Phase::Operations && c.plan_result.forecast.limit != ForecastLimit::Broken;
  // Trial runs of fixes need only diagnostics, so they use neither a listing nor examples.
  WalkOptions trial{.runtime = inputs.walk.runtime, .infer = inputs.walk.infer};
  find_fixes(checker, c.plan, c.plan_result.matches, inputs.plan, inputs.mesh_sizes, trial, diagnostics);
  join_size_diagnostics(checker, c.plan, trial, diagnostics);
  if (c.plan_result.forecast.limit == ForecastLimit::Compiled && !has_errors(diagnostics)) {
    SpecTrials trials = make_spec_trials(checker, c.plan, c.plan_result, inputs.plan, inputs.mesh_sizes, trial);
    const size_t known = diagnostics.list.size();
    check_program_dims(trials, c.plan_result, diagnostics);
    // A cheaper rule would have the same cause as a dim that should not be sharded.
    if (diagnostics.list.size() == known)
      c.plan_result.forecast.advice = check_program_rules(trials, c.plan_result, diagnostics);
  }
  trial.examples = true;
  if (inputs.walk.examples)
    c.plan_result.forecast.examples =
        smallest_examples(checker, c.plan, trial, std::move(c.plan_result.forecast.examples));
  mark_rejected(c.plan, diagnostics);
  if (inputs.last < Phase::Manifest || has_errors(diagnostics)) return c;
  c.manifest = build_manifest(c.plan, c.graph, c.plan_result.matches, c.plan_result.shardings, c.plan_result.boundaries,
                              c.plan_result.init, inputs.walk.runtime.value_or(c.plan.dialect->runtime));
  add_rule_facts(c.manifest, c.graph, c.plan_result.boundaries);
  if (inputs.use == ManifestUse::Read) add_paths(c.manifest, paths_of(c.graph, c.plan_result.boundaries));
  c.manifest.collectives = c.plan_result.forecast.calls;
  c.manifest.has_collectives = c.plan_result.forecast.limit == ForecastLimit::None;
  if (c.manifest.has_collectives)
    c.manifest.step = {c.graph.operations.batch, c.graph.operations.sequence, c.plan_result.forecast.unlisted};
  if (c.manifest.has_collectives) c.manifest.costs = c.plan_result.costs;
  if (inputs.use != ManifestUse::Totals) {
    c.manifest.model_sha256 = sha256_hex(inputs.model.text);
    c.manifest.plan_sha256 = sha256_hex(inputs.plan.text);
  }
  if (!inputs.walk.infer && !inputs.walk.runtime)
    c.plain = plain_parameters(c.plan, c.graph, c.plan_result.matches, c.plan_result.shardings);
  c.reached = Phase::Manifest;
  return c;
}

}  // namespace

Compilation compile(const CompileInputs& inputs, Diagnostics& diagnostics) {
  Compilation c = run_phases(inputs, diagnostics);
  drop_broken_edits(inputs.plan, diagnostics);
  return c;
}

bool write_manifest(const Compilation& c, const Sink& sink) {
  return write_manifest(c.manifest, paths_of(c.graph, c.plan_result.boundaries), sink);
}

std::string dump(const Compilation& c, Phase phase) {
  const CheckResult& j = c.plan_result;
  std::string out;
  switch (phase) {
    case Phase::Model:
      return dump(c.graph);
    case Phase::Graph:
      std::ignore = print_graph(c.graph, append_to(out));
      return out;
    case Phase::Plan:
      return dump(c.plan);
    case Phase::Matches:
      return dump(j.matches, c.plan, c.graph);
    case Phase::Shardings:
      return dump(j.shardings, c.plan, c.graph);
    case Phase::Boundaries:
      return dump(j.boundaries, c.plan, c.graph);
    case Phase::Operations:
      return j.forecast.limit == ForecastLimit::None || j.forecast.limit == ForecastLimit::Forward ||
                     j.forecast.limit == ForecastLimit::Compiled
                 ? j.forecast.listing
                 : fmt::format("not walked: {}\n", to_text(j.forecast.limit));
    case Phase::Manifest:
      break;
  }
  std::ignore = write_manifest(c, append_to(out));
  return out;
}

}  // namespace tpplan
