// The compiler: files in, a manifest out.
#pragma once

#include <string>

#include "judge.h"
#include "manifest/manifest.h"
#include "ops/resize_graph.h"
#include "phase.h"
#include "plan/read_plan.h"

namespace tpplan {

struct CompileInputs {
  const SourceFile& model;
  const SourceFile& plan;
  MeshSizes mesh_sizes;  // replace those in the plan
  Phase last = Phase::Manifest;
  WalkOptions walk;
  StepSizes step;  // of the recorded operations, instead of theirs
};

// Every product that was made, in order. Views point into the inputs.
struct Compilation {
  ModelGraph graph;
  TpPlan plan;
  Judgement judgement;
  Manifest manifest;
  Phase reached = Phase::Model;  // the last phase that ran
};

// Reads both files, judges the plan (judge.h) and builds the manifest, until a phase reports an error, so that each
// finding is about the inputs and not about what an earlier finding left behind. The manifest is good when no error was
// reported and Phase::Manifest was reached.
[[nodiscard]] Compilation compile(const CompileInputs& inputs, Diagnostics& diagnostics);

// `--print PHASE`: the product of a phase as text (what golden tests hold). Phase::Manifest prints the manifest file.
[[nodiscard]] std::string dump(const Compilation& compilation, Phase phase);

}  // namespace tpplan
