// Generation of a first plan for a model.
#pragma once

#include <string>
#include <vector>

#include "judge/judge.h"
#include "plan/tp_plan.h"
#include "plan/write_plan.h"

namespace tpplan {

// A generated plan with its comments. Views point into the model.
struct DraftPlan {
  TpPlan plan;
  PlanComments comments;
  size_t sharded_units = 0;           // count of sharded units
  size_t fallbacks = 0;               // count of units with a known sharding but without the best strategy
  std::vector<std::string> reasons;   // why units are replicated
  std::vector<std::string> findings;  // diagnostics of the plan; empty if it is correct
};

// Returns a plan for the units of the model (find_units.h). Each unit gets the first of its strategies
// (unit_strategies.h) with which check_plan() reports no diagnostic on the plan so far. If there is none, the unit is
// replicated and its comment gives the reason. Styles shard over `axis`. Other axes of the mesh are data axes, and FSDP
// shards over the one named `fsdp`.
// @pre the operations of the model are proven (ops/prove_shapes.h), and `axis` is an axis of the mesh
[[nodiscard]] DraftPlan draft_plan(Checker& checker, const DialectRow& dialect, const Mesh& mesh, AxisId axis);

}  // namespace tpplan
