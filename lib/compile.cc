#include "compile.h"

#include <spdlog/fmt/fmt.h>

#include <tuple>
#include <utility>

#include "base/sha256.h"
#include "infer/build_manifest.h"
#include "manifest/write_manifest.h"
#include "model/read_model.h"
#include "ops/prove_shapes.h"
#include "remedy/find_remedies.h"
#include "remedy/join_size_findings.h"
#include "remedy/smallest_examples.h"

namespace tpplan {

namespace {

// What transformers refuses, it refuses when the plan is applied.
void mark_refused(const TpPlan& plan, Diagnostics& diagnostics) {
  if (plan.dialect->runtime != PlanRuntime::Transformers) return;
  for (Diagnostic& d : diagnostics.list) {
    const bool refused = d.severity == Severity::Error && kind_of(d.code).failure == Failure::Content;
    if (refused && d.fails.empty()) d.fails = "apply";
  }
}

}  // namespace

Compilation compile(const CompileInputs& inputs, Diagnostics& diagnostics) {
  Compilation c;
  c.graph = read_model(inputs.model, diagnostics);
  const bool fits =
      has_errors(diagnostics) || (prove_shapes(c.graph.operations, c.graph.file, diagnostics) &&
                                  resize_graph(c.graph.operations, c.graph.file, inputs.step, diagnostics));
  c.plan = read_plan(inputs.plan, inputs.mesh_sizes, diagnostics);  // both, so that both files' faults are seen
  if (inputs.last == Phase::Model || !fits) return c;
  c.reached = Phase::Plan;
  mark_refused(c.plan, diagnostics);
  if (inputs.last == Phase::Plan || has_errors(diagnostics)) return c;
  WalkOptions walk = inputs.walk;
  walk.listing = inputs.last == Phase::Operations;
  c.judgement = judge(c.graph, c.plan, diagnostics, inputs.last, walk);
  c.reached = c.judgement.reached;
  // Edits are tried for their findings alone.
  find_remedies(c.graph, c.plan, inputs.plan, inputs.mesh_sizes,
                {.runtime = inputs.walk.runtime, .infer = inputs.walk.infer}, diagnostics);
  join_size_findings(c.graph, c.plan, diagnostics);
  if (inputs.walk.examples)
    c.judgement.forecast.examples = smallest_examples(
        c.graph, c.plan, {.runtime = inputs.walk.runtime, .infer = inputs.walk.infer, .examples = true},
        std::move(c.judgement.forecast.examples));
  mark_refused(c.plan, diagnostics);
  if (inputs.last < Phase::Manifest || has_errors(diagnostics)) return c;
  c.manifest = build_manifest(c.plan, c.graph, c.judgement.matches, c.judgement.shardings, c.judgement.boundaries,
                              c.judgement.init, inputs.walk.runtime.value_or(c.plan.dialect->runtime));
  add_rule_facts(c.manifest);
  c.manifest.collectives = c.judgement.forecast.calls;
  c.manifest.has_collectives = c.judgement.forecast.gap == ForecastGap::None;
  if (c.manifest.has_collectives)
    c.manifest.step = {c.graph.operations.batch, c.graph.operations.sequence, c.judgement.forecast.unlisted};
  if (c.manifest.has_collectives) c.manifest.costs = c.judgement.costs;
  c.manifest.model_sha256 = sha256_hex(inputs.model.text);
  c.manifest.plan_sha256 = sha256_hex(inputs.plan.text);
  c.reached = Phase::Manifest;
  return c;
}

std::string dump(const Compilation& c, Phase phase) {
  const Judgement& j = c.judgement;
  switch (phase) {
    case Phase::Model:
      return dump(c.graph);
    case Phase::Plan:
      return dump(c.plan);
    case Phase::Matches:
      return dump(j.matches, c.plan, c.graph);
    case Phase::Shardings:
      return dump(j.shardings, c.plan, c.graph);
    case Phase::Boundaries:
      return dump(j.boundaries, c.plan, c.graph);
    case Phase::Operations:
      return j.forecast.gap == ForecastGap::None || j.forecast.gap == ForecastGap::Forward
                 ? j.forecast.listing
                 : fmt::format("not walked: {}\n", to_text(j.forecast.gap));
    case Phase::Manifest:
      break;
  }
  std::string out;
  std::ignore = write_manifest(c.manifest, [&out](std::string_view piece) {
    out += piece;
    return true;
  });
  return out;
}

}  // namespace tpplan
