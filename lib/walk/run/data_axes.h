// Calls of tpplan's runtime over data axes (tools/python/tpplan/torch/views.py). A parameter sharded over them is
// gathered when a module sees its view, and the view's gradient is reduced by the steps in the manifest. Ranks along
// these axes differ only in their batch, so that layouts of the walk do not change.
#pragma once

#include <vector>

#include "sharding/param_calls.h"
#include "walk/state/walk_state.h"

namespace tpplan {

// Returns the calls for the view of a parameter (forward) and for the gradient of the view (backward). Empty if the
// walk lists no calls over data axes.
[[nodiscard]] ParamCalls data_calls(const Walk& walk, ParamId param);
void list_calls(Walk& walk, std::vector<CollectiveCall> calls, ModuleId module);

}  // namespace tpplan
