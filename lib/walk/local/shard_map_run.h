// Per-rank programs under jax.shard_map: their parameters, modules and operations.
#pragma once

#include "model/model_graph.h"
#include "ops/value_layout.h"
#include "plan/tp_plan.h"

namespace tpplan {

struct Walk;

[[nodiscard]] ValueLayout shard_map_param_layout(Walk& walk, ParamId param, RuleId& rule);
void cross_shard_map_module(Walk& walk, const GraphNode& node);
void run_shard_map_op(Walk& walk, const GraphNode& node, uint32_t index);

}  // namespace tpplan
