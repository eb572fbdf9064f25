#include "compile.h"

#include "base/sha256.h"
#include "infer/build_manifest.h"
#include "manifest/write_manifest.h"
#include "model/read_model.h"

namespace tpplan {

Compilation compile(const CompileInputs& inputs, Diagnostics& diagnostics) {
  Compilation c;
  c.graph = read_model(inputs.model, diagnostics);
  c.plan = read_plan(inputs.plan, inputs.mesh_sizes, diagnostics);  // both, so that both files' faults are seen
  if (inputs.last == Phase::Model) return c;
  c.reached = Phase::Plan;
  if (inputs.last == Phase::Plan || has_errors(diagnostics)) return c;
  c.judgement = judge(c.graph, c.plan, diagnostics, inputs.last);
  c.reached = c.judgement.reached;
  if (inputs.last < Phase::Manifest || has_errors(diagnostics)) return c;
  c.manifest = build_manifest(c.plan, c.graph, c.judgement.matches, c.judgement.shardings, c.judgement.boundaries,
                              c.judgement.init);
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
  write_manifest(c.manifest, [&out](std::string_view piece) {
    out += piece;
    return true;
  });
  return out;
}

}  // namespace tpplan
