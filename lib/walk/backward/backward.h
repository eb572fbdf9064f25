// The backward pass: whether the gradient that every rank has is complete or partial.
//
// The loss of a model is one number that every rank computes in full, so the gradient of a replicated output is
// complete on every rank. For any value before it, a rank has the gradient through the operations that it ran. That is
// the full gradient of its elements (complete), or only the part through its shards (partial: the sum over the ranks is
// right). Styles and DTensor reduce the partial gradients that they know of. A gradient of a parameter that is never
// reduced, or reduced twice, trains another model without an error.
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// Walks the tape backward. Appends the collectives to WalkOutput::calls in autograd's order, which is descending order
// of the tape. The reduction of a parameter's gradient comes right after the tape entry of its first use, when it is
// complete.
void walk_backward(Walk& walk, bool is_reporting);

}  // namespace tpplan
