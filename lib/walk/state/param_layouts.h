// Layouts of parameters at the start of the step.
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// Returns the layout of a parameter and the rule that shards it. The layout is a DTensor if the style makes it one.
[[nodiscard]] ValueLayout param_layout(Walk& walk, ParamId param, RuleId& rule);

}  // namespace tpplan
