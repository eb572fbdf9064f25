// What comes back to a value from each of its uses, added up.
#pragma once

#include "walk/grad.h"

namespace tpplan {

// Autograd adds the gradients of a value's uses on each rank. Complete ones add up to a complete one, open sums to an
// open one; a complete one and a term do not, because a later sum over the ranks would count the first n times. Of two
// DTensors that claim different layouts torch brings both to one. By the part of one dim where they are known so.
void accumulate(Backward& b, SlotId slot, Grad add, const TapeEntry& entry);

}  // namespace tpplan
