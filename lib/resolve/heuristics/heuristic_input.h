// The common input of the heuristics.
#pragma once

#include <vector>

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "resolve/infer/infer_boundaries.h"
#include "resolve/infer/sharding_table.h"
#include "resolve/match/match_plan.h"

namespace tpplan {

struct HeuristicInput {
  const TpPlan& plan;
  const ModelGraph& graph;
  const MatchTable& matches;
  const ShardingTable& shardings;
  bool has_errors = false;                    // the shardings have errors
  const BoundaryTable* boundaries = nullptr;  // nullptr: not inferred
  std::vector<bool> walk_failed;              // by RuleId: the walk failed in a module of the rule; may be empty
  Diagnostics& diagnostics;
};

[[nodiscard]] inline bool has_walk_error(const HeuristicInput& in, RuleId rule) {
  return rule != kNoRule && !in.walk_failed.empty() && in.walk_failed[rule];
}

}  // namespace tpplan
