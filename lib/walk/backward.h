// Gradients, from the output back: whether what every rank has is complete, or a term of a sum that is still open.
//
// A model's loss is one number that every rank computes whole; so the gradient of a result that every rank has is
// complete on every rank. Behind it, at each value, a rank has what comes through the operations that it ran itself:
// all of it (complete, for the elements that it holds), or only the terms through its own pieces (open: the sum over
// the ranks is right). Styles and DTensor close sums where they know of them. What is left open at a parameter, or
// closed twice, trains another model without an error.
#pragma once

#include "walk/walk_state.h"

namespace tpplan {

// Goes back over the tape of a walk forward. Appends the collectives to Walk::calls in the order in which autograd
// calls them: in descending order of the tape, and a parameter's own sum as soon as its gradient is complete, which is
// with the tape entry that used it first.
void walk_backward(Walk& walk, bool report_findings);

}  // namespace tpplan
