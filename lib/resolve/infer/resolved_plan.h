// A plan whose rules are resolved on a model: the rule and sharding of each parameter, and the module boundaries.
#pragma once

#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "resolve/infer/infer_boundaries.h"
#include "resolve/infer/sharding_table.h"
#include "resolve/match/match_table.h"

namespace tpplan {

struct ResolvedPlan {
  const TpPlan& plan;
  const ModelGraph& model;
  const MatchTable& matches;
  const ShardingTable& shardings;
  const BoundaryTable& boundaries;
};

}  // namespace tpplan
