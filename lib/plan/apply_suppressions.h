// Takes out the warnings that the plan's owner has looked at.
#pragma once

#include "diagnostics/diagnostics.h"
#include "plan/tp_plan.h"

namespace tpplan {

// Removes warnings that a suppression of the plan names: its code and, where it names a rule, a place at that rule's key or
// value. A suppression that removes nothing is reported (TP3017), so that none outlives its cause, when the findings are
// complete: every phase has run.
void apply_suppressions(const TpPlan& plan, bool is_complete, Diagnostics& diagnostics);

}  // namespace tpplan
