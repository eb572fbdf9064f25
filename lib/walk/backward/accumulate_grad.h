// Accumulation of the gradients of a value's uses.
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// Adds a gradient to the gradient of a value, as autograd does on each rank. Two complete ones are complete, two
// partial ones are partial. A complete and a partial one are an error, because a later reduction counts the complete
// one n times. If DTensors have different placements, torch redistributes both. Segments of one dim are added
// separately.
void accumulate_grad(Backward& b, SlotId slot, Grad add, const TapeEntry& entry);

}  // namespace tpplan
