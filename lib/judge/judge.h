// Checks plans of a model in memory, without file access. A search calls check_plan for each of its candidate plans.
#pragma once

#include "diagnostics/diagnostics.h"
#include "judge/phase.h"
#include "manifest/step_costs.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "resolve/infer/apply_init.h"
#include "resolve/infer/infer_boundaries.h"
#include "resolve/infer/sharding_table.h"
#include "resolve/match/key_hits.h"
#include "resolve/match/match_table.h"
#include "walk/check_data_dim.h"
#include "walk/layers/model_tables.h"
#include "walk/state/walk_memory.h"
#include "walk/walk_graph.h"

namespace tpplan {

// A model, and what the checks of its plans share. The caches never change a check result, whatever was checked before.
// They depend on the model and on the mesh axis sizes of the last plan, and are cleared beyond some tens of megabytes
// (kMaxCachedNumbers in walk/state/walk_tables.h, kMaxCachedHits in resolve/match/key_hits.h).
// @pre the model is not changed, and outlives the judge. Not thread-safe: use one judge per thread.
struct Checker {
  const ModelGraph& graph;
  ModelTables tables;  // of the graph
  KeyHits hits;
  WalkMemory walk;
  DataDimCauses data_dims;
  KnownFilter is_known;  // errors of a baseline that do not stop the check
};

[[nodiscard]] Checker make_checker(const ModelGraph& graph);

// The results of all phases that ran, in order. Views point into the graph and the plan.
struct CheckResult {
  MatchTable matches;
  ShardingTable shardings;
  BoundaryTable boundaries;
  InitTable init;               // set if `last` is Phase::Manifest
  Forecast forecast;            // empty unless the model has traced operations
  StepCosts costs;              // of the same operations, if WalkOptions::trace is set
  Phase reached = Phase::Plan;  // the last phase that ran
};

// Runs the phases after reading, from matching on, until one reports an error or `last` has run. The plan is legal if
// no error was reported and Phase::Operations was reached.
// @pre no error has been reported yet. The plan satisfies what read_plan checks: styles of its dialect, axes of its
// mesh, a desired layout for each layout. Spans of plan and graph may be empty; diagnostics then have no position.
[[nodiscard]] CheckResult check_plan(Checker& checker, const TpPlan& plan, Diagnostics& diagnostics,
                                     Phase last = Phase::Manifest, const WalkOptions& walk = {});

}  // namespace tpplan
