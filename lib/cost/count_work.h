// How many floating point operations the products of an operation take on rank 0, by its local shapes.
#pragma once

#include "cost/follow_memory.h"
#include "manifest/step_costs.h"

namespace tpplan {

// Two for each multiplication and its addition. Forward of every product; backward once more for each operand that has
// a gradient, and of attention two and a half times (as kernels that do not keep the scores do it). Nothing for
// operations without products; `again` is 0. Numbers stop at kMostInTotal.
[[nodiscard]] MatmulWork count_work(const StepTrace& trace, const OpGraph& graph, const OpEffects& effects,
                                    const TracedOp& op);

}  // namespace tpplan
