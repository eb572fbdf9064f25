// One operation on the way back: from its results' gradients to those of its operands.
#pragma once

#include "walk/grad.h"

namespace tpplan {

// Which state a gradient is in follows from the layouts that the operation saw (gradient_through in ops/gradient.h),
// whatever it computes: a rank's gradient of an operand counts what went through this rank's piece of the result, and
// nothing else. No derivative is taken, and no operation has a rule of its own for the way back.
void operation_back(Backward& b, const TapeEntry& entry);

}  // namespace tpplan
