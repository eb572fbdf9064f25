// The compiler: the only place that knows the order of the phases.
#pragma once

#include <string_view>

#include "infer/apply_init.h"
#include "infer/infer_boundaries.h"
#include "infer/sharding_table.h"
#include "manifest/manifest.h"
#include "match/match_plan.h"
#include "plan/read_plan.h"

namespace tpplan {

// After which phase to stop.
enum class Phase : uint8_t { Model, Plan, Matches, Shardings, Boundaries, Manifest };

struct CompileInputs {
  const SourceFile& model;
  const SourceFile& plan;
  MeshSizes mesh_sizes;  // replace those in the plan
  Phase last = Phase::Manifest;
};

// Every product that was made, in order. Views point into the inputs.
struct Compilation {
  ModelGraph graph;
  TpPlan plan;
  MatchTable matches;
  ShardingTable shardings;
  BoundaryTable boundaries;
  InitTable init;
  Manifest manifest;
  Phase reached = Phase::Model;  // the last phase that ran
};

// Runs the phases until one reports an error, so that each finding is about the inputs and not about what an earlier
// finding left behind. The manifest is good when no error was reported and Phase::Manifest was reached.
Compilation compile(const CompileInputs& inputs, Diagnostics& diagnostics);

// `--print PHASE`: the product of a phase as text (what golden tests hold). Phase::Manifest prints the manifest file.
std::string dump(const Compilation& compilation, Phase phase);
bool find_phase(std::string_view name, Phase& phase);
std::string_view to_text(Phase phase);

}  // namespace tpplan
