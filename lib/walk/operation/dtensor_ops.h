// Operations on DTensors. Torch chooses layouts by the declared placements, redistributes the operands to them (with
// collectives that no plan names), and computes on the actual local tensors. So the walk computes two things: the
// chosen placements, from the declared ones only, and the actual layouts of the results.
#pragma once

#include "walk/state/node_args.h"

namespace tpplan {

// Runs an operation with DTensor operands. It crashes if another operand is a plain tensor with more than one element.
void run_on_dtensors(Walk& walk, const GraphNode& node, uint32_t index, const NodeOperands& seen);

}  // namespace tpplan
