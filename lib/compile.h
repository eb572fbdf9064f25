// The compiler: reads a model file and a plan, and builds the manifest.
#pragma once

#include <cstdint>
#include <string>

#include "base/write_file.h"
#include "judge/judge.h"
#include "judge/phase.h"
#include "manifest/manifest.h"
#include "ops/resize_graph.h"
#include "plan/read_plan.h"

namespace tpplan {

// The parts of a manifest that a caller uses: totals and costs, the file that write_manifest writes, or all fields.
enum class ManifestUse : uint8_t { Totals, Write, Read };

struct CompileInputs {
  const SourceFile& model;
  const SourceFile& plan;
  MeshSizes mesh_sizes;  // override the sizes in the plan
  Phase last = Phase::Manifest;
  WalkOptions walk;
  KnownFilter is_known = {};  // of a baseline (Checker::is_known)
  StepSizes step;             // overrides the batch and sequence sizes of the traced operations
  ManifestUse use = ManifestUse::Read;
};

// The results of all phases that ran, in order. Views point into the inputs.
struct Compilation {
  ModelGraph graph;
  TpPlan plan;
  CheckResult plan_result;
  Manifest manifest;
  Phase reached = Phase::Model;  // the last phase that ran
  std::vector<ParamId> plain;    // plain tensors next to DTensors in training (resolve/infer/plain_parameters.h)
  bool is_checked = false;       // no error stopped the check of the shardings and the operations
};

// Reads both files, checks the plan (judge/judge.h) and builds the manifest. Stops after the first phase that reports
// an error, so that no diagnostic is a consequence of an earlier one. The manifest is valid if no error was reported
// and Phase::Manifest was reached.
[[nodiscard]] Compilation compile(const CompileInputs& inputs, Diagnostics& diagnostics);

// Sends the manifest of a compilation to `sink`.
[[nodiscard]] bool write_manifest(const Compilation& compilation, const Sink& sink);

// Returns the result of a phase as text, for `--print PHASE` and golden tests. Phase::Manifest prints the manifest
// file.
[[nodiscard]] std::string dump(const Compilation& compilation, Phase phase);

}  // namespace tpplan
