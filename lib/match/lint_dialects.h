// Where other readers of plans would understand a key differently.
#pragma once

#include <span>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"

namespace tpplan {

// What only lint_dialects reports.
inline constexpr Code kLintCode = Code::TP4010;

// The dialects whose keys are written as the plan's own are: globs, or regular expressions. To others nobody hands a
// key as it is.
[[nodiscard]] std::vector<const DialectRow*> dialects_alike(const TpPlan& plan);

// Matches the plan's keys by these dialects and reports each key that selects other parameters there than in the plan's
// own dialect (TP4010), with the number of parameters that each dialect selects. Not part of compile(): a plan has one
// meaning.
void lint_dialects(const TpPlan& plan, const ModelGraph& graph, std::span<const DialectRow* const> dialects,
                   Diagnostics& diagnostics);

}  // namespace tpplan
