// Gradients that change hands between ranks: sums, and DTensor's redistributions on the way back.
#pragma once

#include "walk/grad.h"

namespace tpplan {

// A collective of the backward pass, on what rank 0 holds of `layout`, over one of the walk's axes; `hidden` as in
// CollectiveCall.
void record_grad_call(Backward& b, const TapeEntry& entry, const Collective& call, const Spread& layout, SlotId slot,
                      bool hidden = false);

// The ranks along one axis add up what they have: an open sum is closed. What is complete becomes too large, and that
// nobody notices at run time.
[[nodiscard]] Grad close_sum(Backward& b, const TapeEntry& entry, Grad grad, size_t axis);

// DTensor's redistribution of a gradient from the layout that it claims (torch 2.13, tensor/_redistribute.py). Ranks do
// what the claim asks for; whether that is right the truth says. `slot` has its dtype.
[[nodiscard]] Grad redistribute_claim(Backward& b, const TapeEntry& entry, Grad grad, const Claim& to, SlotId slot,
                                      bool hidden);

// What DTensor does before it goes back through an operation: a gradient that claims to be an open sum is closed where
// the operation takes pieces, or left a sum open itself. `held`: what ranks hold of the gradient.
void close_before(Backward& b, const TapeEntry& entry, const TapeSlot& result, SpreadId held);

}  // namespace tpplan
