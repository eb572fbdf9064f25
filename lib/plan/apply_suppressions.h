// Takes out the warnings that the plan's owner has looked at.
#pragma once

#include <functional>

#include "diagnostics/diagnostics.h"
#include "plan/tp_plan.h"

namespace tpplan {

// Removes warnings that a suppression of the plan names: its code and, where it names a rule, a place at that rule's
// key or value. A suppression that removes nothing is reported (TP3017), so that none outlives its cause, where
// everything that can report its code has run.
void apply_suppressions(const TpPlan& plan, const std::function<bool(Code)>& is_complete, Diagnostics& diagnostics);

}  // namespace tpplan
