// Communication of gradients: reductions, and DTensor's redistributions in the backward pass.
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// Records a collective of the backward pass over an axis of the walk, on the local tensor of `layout` on rank 0;
// `hidden` as in CollectiveCall.
void append_grad_call(Backward& b, const TapeEntry& entry, const Collective& call, const ValueLayout& layout,
                      SlotId slot, bool hidden = false);

// Reduces a gradient over one axis, which makes a partial one complete. A complete one becomes n times too large, which
// is an error that no run notices.
[[nodiscard]] Grad reduce_partial(Backward& b, const TapeEntry& entry, Grad grad, size_t axis);

// Redistributes a DTensor gradient from its declared placements (torch 2.13, tensor/_redistribute.py). The calls follow
// the declared placements; the actual state determines whether the result is right. `slot` has its dtype.
[[nodiscard]] Grad redistribute_to_declared(Backward& b, const TapeEntry& entry, Grad grad,
                                            const DeclaredPlacements& to, SlotId slot, bool hidden);

// Reduces a gradient that is declared Partial before the backward of an operation, along the axes that shard an operand
// or over which the result is partial. `held`: the layout of the gradient.
void reduce_incoming_grad(Backward& b, const TapeEntry& entry, const TapeSlot& result, ValueLayoutId held);

}  // namespace tpplan
