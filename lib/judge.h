// Judging a plan: everything that is said of a model and a plan in memory. No file is read, none is written; who has
// thousands of plans for one model (a search) calls this for each of them.
#pragma once

#include "diagnostics/diagnostics.h"
#include "infer/apply_init.h"
#include "infer/infer_boundaries.h"
#include "infer/sharding_table.h"
#include "manifest/step_costs.h"
#include "match/match_plan.h"
#include "model/model_graph.h"
#include "phase.h"
#include "plan/tp_plan.h"
#include "walk/walk_graph.h"

namespace tpplan {

struct JudgeTables;

// Every product that was made, in order. Views point into the graph and the plan.
struct Judgement {
  MatchTable matches;
  ShardingTable shardings;
  BoundaryTable boundaries;
  InitTable init;               // with the operations
  Forecast forecast;            // where the model has operations
  StepCosts costs;              // of the same, where WalkOptions::trace asked for it
  Phase reached = Phase::Plan;  // the last phase that ran
};

// Runs the phases from matching on until one reports an error or `last` has run. The plan is legal when no error was
// reported and Phase::Operations was reached.
// @pre no error has been reported yet. The plan holds what read_plan lets pass: styles of its own dialect, axes of its
// mesh, a desired layout for each layout. Its spans, as the graph's, may say nothing: findings then have no place.
// `tables`: what plans of this model before left, and this one leaves (judge_tables.h); nothing of it decides.
[[nodiscard]] Judgement judge(const ModelGraph& graph, const TpPlan& plan, Diagnostics& diagnostics,
                              Phase last = Phase::Manifest, const WalkOptions& walk = {},
                              JudgeTables* tables = nullptr);

}  // namespace tpplan
