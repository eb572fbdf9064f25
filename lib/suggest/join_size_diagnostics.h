// Joining of diagnostics with one cause: the size of a mesh axis.
#pragma once

#include "diagnostics/diagnostics.h"
#include "judge/judge.h"
#include "plan/tp_plan.h"

namespace tpplan {

// Replaces several errors about indivisible tensors, heads or blocks by one error at the main axis, if other sizes of
// that axis make the plan correct. Its help lists these sizes; each is checked, operations included. Does nothing for
// models with too many parameters, where the checks would be slow.
void join_size_diagnostics(Checker& checker, const TpPlan& plan, const WalkOptions& walk, Diagnostics& diagnostics);

}  // namespace tpplan
