// The FLOPs of the matmuls of an operation on rank 0, from its local shapes.
#pragma once

#include "cost/step_memory.h"
#include "manifest/step_costs.h"

namespace tpplan {

// Counts two for each multiply-add. Backward counts the forward FLOPs for each operand that requires a gradient,
// and 2.5 times for attention (as kernels that recompute the scores). Zero for operations without matmuls. `again` is
// 0. Counts saturate at kMostInTotal.
[[nodiscard]] MatmulWork count_work(const StepTrace& trace, const OpGraph& graph, const TracedOp& op);

}  // namespace tpplan
