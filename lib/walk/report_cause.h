// What a cause is for the person who reads it: the place in the plan, the layers that fail alike, what each operand is.
#pragma once

#include <string_view>

#include "walk/walk_state.h"

namespace tpplan {

// One finding a cause, with the layers in which a run would fail alike. `fails` is as Diagnostic::fails.
void report_cause(Walk& walk, const Cause& cause, std::string_view fails);

}  // namespace tpplan
