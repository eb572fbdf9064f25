// The backward of one step of a style or of DTensor.
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// Applies torch's autograd function of the step to the gradient (torch 2.13, _ToTorchTensor and _FromTorchTensor in
// tensor/_api.py, Redistribute in tensor/_redistribute.py; transformers 5.23, _AllReduceBackward in
// distributed/parallel_utils.py). to_local() declares the placements of the gradient that it was given. from_local()
// and redistribute() redistribute the gradient to the placements of their input.
void step_backward(Backward& b, const TapeEntry& entry);

}  // namespace tpplan
