// Where other readers of plans would understand a key differently.
#pragma once

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"

namespace tpplan {

// What only lint_dialects reports.
inline constexpr Code kLintCode = Code::TP4010;

// Matches the plan's keys by every dialect and reports each key that selects other parameters elsewhere than in the
// plan's own dialect (TP4010), with the number of parameters that each dialect selects. Not part of compile(): a plan
// has one meaning.
void lint_dialects(const TpPlan& plan, const ModelGraph& graph, Diagnostics& diagnostics);

}  // namespace tpplan
