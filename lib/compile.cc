#include "compile.h"

#include <tuple>

#include "base/sha256.h"
#include "infer/build_manifest.h"
#include "manifest/write_manifest.h"
#include "model/read_model.h"
#include "remedy/find_remedies.h"

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
  c.plan = read_plan(inputs.plan, inputs.mesh_sizes, diagnostics);  // both, so that both files' faults are seen
  if (inputs.last == Phase::Model) return c;
  c.reached = Phase::Plan;
  mark_refused(c.plan, diagnostics);
  if (inputs.last == Phase::Plan || has_errors(diagnostics)) return c;
  c.judgement = judge(c.graph, c.plan, diagnostics, inputs.last, inputs.walk);
  c.reached = c.judgement.reached;
  find_remedies(c.graph, c.plan, inputs.walk, diagnostics);
  mark_refused(c.plan, diagnostics);
  if (inputs.last < Phase::Manifest || has_errors(diagnostics)) return c;
  c.manifest = build_manifest(c.plan, c.graph, c.judgement.matches, c.judgement.shardings, c.judgement.boundaries,
                              c.judgement.init);
  for (const ForecastCall& call : c.judgement.forecast.calls) {
    c.manifest.collectives.push_back({.backward = call.backward,
                                      .kind = call.kind,
                                      .axis = call.axis,
                                      .module = std::string(call.module),
                                      .shape = call.shape,
                                      .dtype = std::string(call.dtype),
                                      .bytes = call.bytes});
  }
  c.manifest.has_collectives = c.judgement.forecast.is_there;
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
