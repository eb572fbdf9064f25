// The end of the way back: a parameter's gradient, once its last part has come.
#pragma once

#include "walk/grad.h"

namespace tpplan {

// A plain parameter's gradient must be complete for the elements that the rank holds, because the optimizer takes it as
// it is; a DTensor's in the layout that it claims. What a style sums by a hook of the parameter
// (replicated_with_grad_allreduce) is summed first. Reports TP5111 and TP5112, if asked for.
void judge_grad(Backward& b, ParamId id, SlotId slot, bool report_findings);

}  // namespace tpplan
