// What tpplan's runtime does at the boundaries of modules.
#pragma once

#include <span>

#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "resolve/infer/infer_boundaries.h"
#include "resolve/infer/sharding_table.h"
#include "walk/state/module_program.h"

namespace tpplan {

// Builds the programs of all modules. `axes`: the walked axes.
[[nodiscard]] ModulePrograms build_tpplan_programs(const TpPlan& plan, const ModelGraph& model,
                                                   const BoundaryTable& boundaries, const ShardingTable& shardings,
                                                   std::span<const AxisId> axes);

}  // namespace tpplan
