// A model -> a first plan for it.
#pragma once

#include <string>
#include <vector>

#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "plan/write_plan.h"

namespace tpplan {

// A plan, and what is to be said about it where it is written. Views point into the model.
struct DraftPlan {
  TpPlan plan;
  PlanComments comments;
  size_t cut = 0;                     // units that are cut
  size_t fallbacks = 0;               // units that are cut in another way than the best one, or not at all
  std::vector<std::string> reasons;   // why units are whole
  std::vector<std::string> findings;  // of the plan as it stands; none where the draft is right
};

// Finds the units of the model (find_units.h), and gives each the first of its ways (unit_ways.h) with which judge()
// has nothing to say of the plan so far; where there is none, the unit stays whole, and the comment says why. Styles
// shard over `axis`; the mesh's other axes are data axes, `fsdp` one that FSDP shards over.
// @pre The operations of the model are proven (ops/prove_shapes.h). `axis` is one of the mesh.
[[nodiscard]] DraftPlan draft_plan(const ModelGraph& graph, const DialectRow& dialect, const Mesh& mesh, AxisId axis);

}  // namespace tpplan
