// A run and a plan that describe the same step: checkpointing and the loss.
#pragma once

#include "model/op_graph.h"
#include "plan/tp_plan.h"
#include "topology/read_run.h"

namespace tpplan {

// Reports TP9108 at the key of the run file that contradicts the plan: `checkpointing` beside `remat`, or a `loss`
// other than the plan's `cross_entropy`. Without the key the run takes the plan's loss.
void check_run(RunFile& file, const TpPlan& plan, Diagnostics& diagnostics);

// Calls check_run, and sets sizes that the run does not specify to those of the traced step.
void complete_run(RunFile& file, const TpPlan& plan, const OpGraph& graph, Diagnostics& diagnostics);

}  // namespace tpplan
