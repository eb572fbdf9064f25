// The backward of one operation: from the gradients of its results to those of its operands.
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// Adds the gradients of the operands. Their states follow from the layouts at the time of the operation
// (gradient_through in ops/gradient.h), whatever it computes. A rank's gradient of an operand has exactly the
// contributions through this rank's shard of the result. Only redistributions of DTensors depend on the operation
// (dtensor_back.h).
void operation_backward(Backward& b, const TapeEntry& entry);

}  // namespace tpplan
