#include "compile.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>

#include "base/sha256.h"
#include "infer/apply_fsdp.h"
#include "infer/build_manifest.h"
#include "infer/check_coverage.h"
#include "infer/check_heads.h"
#include "infer/infer_params.h"
#include "infer/resolve_ties.h"
#include "manifest/write_manifest.h"
#include "model/read_model.h"

namespace tpplan {

Compilation compile(const CompileInputs& inputs, Diagnostics& diagnostics) {
  Compilation c;
  const auto done = [&](Phase phase) {
    c.reached = phase;
    return phase == inputs.last || has_errors(diagnostics);
  };
  c.graph = read_model(inputs.model, diagnostics);
  c.plan = read_plan(inputs.plan, inputs.mesh_sizes, diagnostics);  // both, so that both files' faults are seen
  if (inputs.last == Phase::Model || done(Phase::Plan)) return c;
  c.matches = match_plan(c.plan, c.graph, diagnostics);
  if (done(Phase::Matches)) return c;
  c.shardings = infer_params(c.plan, c.graph, c.matches, diagnostics);
  resolve_ties(c.plan, c.graph, c.shardings, diagnostics);
  check_heads(c.plan, c.graph, c.shardings, diagnostics);
  if (has_errors(diagnostics)) return c;  // FSDP on top of what is wrong would say nothing true
  apply_fsdp(c.plan, c.graph, c.shardings, diagnostics);
  check_coverage(c.plan, c.graph, c.matches, c.shardings, diagnostics);
  if (done(Phase::Shardings)) return c;
  c.boundaries = infer_boundaries(c.plan, c.graph, c.matches, diagnostics);
  if (done(Phase::Boundaries)) return c;
  c.init = apply_init(c.plan, c.graph, c.shardings, diagnostics);
  c.manifest = build_manifest(c.plan, c.graph, c.matches, c.shardings, c.boundaries, c.init, diagnostics);
  c.manifest.model_sha256 = sha256_hex(inputs.model.text);
  c.manifest.plan_sha256 = sha256_hex(inputs.plan.text);
  done(Phase::Manifest);
  return c;
}

namespace {

constexpr std::string_view kPhases[] = {"model", "plan", "matches", "shardings", "boundaries", "manifest"};

std::string placements_text(const std::optional<std::vector<Placement>>& placements) {
  if (!placements) return "null";
  std::vector<std::string> parts;
  for (const Placement& placement : *placements) parts.push_back(to_text(placement));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

void dump_values(std::string& out, std::string_view what, const std::vector<ValueBoundary>& values, const Mesh& mesh) {
  const auto steps = [&](std::string_view direction, const std::vector<Collective>& collectives) {
    for (const Collective& step : collectives)
      out += fmt::format(" {} {}({}{})", direction, to_text(step.kind), mesh.axes[step.axis].name,
                         step.kind == CollectiveKind::AllReduce ? "" : fmt::format(", {}", step.dim));
  };
  for (const ValueBoundary& value : values) {
    out += fmt::format("  {} {}: {} -> {}", what, value.kwarg.empty() ? std::to_string(value.arg) : value.kwarg,
                       placements_text(value.from), placements_text(value.to));
    steps("forward", value.forward);
    steps("backward", value.backward);
    if (value.use_local) out += *value.use_local ? " local" : " DTensor";
    out += '\n';
  }
}

std::string dump_boundaries(const Compilation& c) {
  std::string out;
  for (const ModuleBoundary& boundary : c.boundaries.modules) {
    const BoundaryLayout& layout = c.boundaries.layouts[boundary.layout];
    out += fmt::format("{}: {}\n", c.graph.modules[boundary.module].path, c.plan.rules[layout.rule].style->name);
    dump_values(out, "input", layout.inputs, c.plan.mesh);
    dump_values(out, "output", layout.outputs, c.plan.mesh);
  }
  return out;
}

}  // namespace

bool find_phase(std::string_view name, Phase& phase) {
  const auto found = std::find(std::begin(kPhases), std::end(kPhases), name);
  phase = static_cast<Phase>(found - std::begin(kPhases));
  return found != std::end(kPhases);
}

std::string_view to_text(Phase phase) { return kPhases[static_cast<size_t>(phase)]; }

std::string dump(const Compilation& c, Phase phase) {
  switch (phase) {
    case Phase::Model:
      return dump(c.graph);
    case Phase::Plan:
      return dump(c.plan);
    case Phase::Matches:
      return dump(c.matches, c.plan, c.graph);
    case Phase::Shardings:
      return dump(c.shardings, c.plan, c.graph);
    case Phase::Boundaries:
      return dump_boundaries(c);
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
