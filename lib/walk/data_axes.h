// What our own runtime calls over data axes (tools/python/tpplan/torch/views.py): a parameter that they cut is gathered
// where a module is shown it, and the gradient of what was shown goes back by the manifest's steps. Values along these
// axes are those of ranks with another batch, so that nothing of a walk's layouts changes.
#pragma once

#include "walk/walk_state.h"

namespace tpplan {

// Whether a parameter, or its gradient, is communicated over the data axes.
[[nodiscard]] bool is_shared(const Walk& walk, ParamId param);
// Lists the calls of showing it to the module that the walk is in, or of the gradient that comes back from `module`.
void list_gather(Walk& walk, ParamId param);
void list_reduction(Walk& walk, ParamId param, ModuleId module);

}  // namespace tpplan
