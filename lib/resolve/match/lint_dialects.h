// Check for keys that other dialects interpret differently.
#pragma once

#include <span>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"

namespace tpplan {

// The diagnostic that only lint_dialects reports.
inline constexpr Code kLintCode = Code::DialectDependentKey;

// Returns the dialects with the key syntax of the plan (globs or regular expressions), to which a key can be copied
// unchanged.
[[nodiscard]] std::vector<const DialectRow*> dialects_with_same_keys(const TpPlan& plan);

// Matches the plan's keys in these dialects. Reports TP4010 for each key that selects different parameters than in the
// plan's dialect, with the counts of both. compile() does not call it, because a plan has one dialect.
void lint_dialects(const TpPlan& plan, const ModelGraph& graph, std::span<const DialectRow* const> dialects,
                   Diagnostics& diagnostics);

}  // namespace tpplan
