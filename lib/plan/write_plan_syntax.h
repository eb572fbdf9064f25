// Writes the syntax of a plan in canonical layout.
#pragma once

#include <string>

#include "plan/plan_syntax.h"

namespace tpplan {

// The maximum width of a collection in brackets; a longer one is written with one entry on each line.
inline constexpr size_t kPlanWidth = 120;

// Sorts known keys, moves comments to valid places, and returns the text.
[[nodiscard]] std::string write_plan_syntax(PlanSyntax pieces);

}  // namespace tpplan
