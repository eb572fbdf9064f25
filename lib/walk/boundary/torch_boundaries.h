// Module boundaries as torch's parallelize_module runs them, and its parameters.
#pragma once

#include "model/model_graph.h"
#include "ops/value_layout.h"
#include "plan/tp_plan.h"

namespace tpplan {

struct Walk;

[[nodiscard]] bool prepare_torch_run(Walk& walk);
[[nodiscard]] ValueLayout torch_param_layout(Walk& walk, ParamId param, RuleId& rule);
void enter_torch_module(Walk& walk, const GraphNode& node);
void exit_torch_module(Walk& walk, const GraphNode& node);

}  // namespace tpplan
