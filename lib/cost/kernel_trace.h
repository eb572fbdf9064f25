// The trace of a step as kernels run it: attention without a mask, with each key and value once.
#pragma once

#include "model/op_graph.h"
#include "topology/run.h"
#include "walk/state/step_trace.h"

namespace tpplan {

// Exported models build a mask and repeat grouped keys and values, because exporting turns causal kernels off. Returns
// the trace without these operations, and without others whose results nothing uses. All layers are in it
// (StepTrace::repeats is empty).
[[nodiscard]] StepTrace kernel_trace(const StepTrace& trace, const OpGraph& graph, const Run& run);

}  // namespace tpplan
