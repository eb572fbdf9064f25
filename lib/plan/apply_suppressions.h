// Removes the warnings that the plan suppresses.
#pragma once

#include <functional>

#include "diagnostics/diagnostics.h"
#include "plan/tp_plan.h"

namespace tpplan {

// Removes warnings with the code of a suppression and, if it names a rule, with a span at that rule's key or value.
// Reports suppressions that remove nothing (TP3017) if `is_complete(code)`: every check that reports the code has run.
void apply_suppressions(const TpPlan& plan, const std::function<bool(Code)>& is_complete, Diagnostics& diagnostics);

}  // namespace tpplan
