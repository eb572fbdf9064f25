// Diagnostics of causes: the place in the plan, the layers with the same error, and the layouts of the operands.
#pragma once

#include <string_view>

#include "walk/state/walk_state.h"

namespace tpplan {

// Reports one diagnostic for each cause, with the number of layers that fail in the same way. `fails` as in
// Diagnostic::fails.
void report_cause(Walk& walk, const Cause& cause, FirstFailure fails);

}  // namespace tpplan
