// What ranks hold of each parameter when the step begins.
#pragma once

#include "walk/walk_state.h"

namespace tpplan {

// What ranks hold of a parameter, and the rule that cuts it. As a DTensor where transformers makes one of it.
[[nodiscard]] Spread param_layout(Walk& walk, ParamId param, RuleId& rule);

}  // namespace tpplan
