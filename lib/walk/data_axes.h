// What our own runtime calls over data axes (tools/python/tpplan/torch/views.py): a parameter that they cut is gathered
// where a module is shown it, and the gradient of what was shown goes back by the manifest's steps. Values along these
// axes are those of ranks with another batch, so that nothing of a walk's layouts changes.
#pragma once

#include <vector>

#include "sharding/param_calls.h"
#include "walk/walk_state.h"

namespace tpplan {

// The calls of a parameter when it is shown to a module, and when the gradient of what was shown comes back; none where
// the walk lists none over data axes.
[[nodiscard]] ParamCalls data_calls(const Walk& walk, ParamId param);
void list_calls(Walk& walk, std::vector<CollectiveCall> calls, ModuleId module);

}  // namespace tpplan
