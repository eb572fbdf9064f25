// The check of a parameter's gradient, once it is complete.
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// Checks the gradient of a parameter. A plain one must be complete for the local elements, because the optimizer uses
// it unchanged; a DTensor must be as declared. If a style reduces it with a hook on the parameter
// (replicated_with_grad_allreduce), it is reduced first. Reports TP5111 and TP5112 on request.
void check_grad(Backward& b, ParamId id, SlotId slot, bool is_reporting);

}  // namespace tpplan
