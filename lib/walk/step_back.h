// One step of a style, or of DTensor, on the way back.
#pragma once

#include "walk/grad.h"

namespace tpplan {

// What torch's autograd functions of these steps do with a gradient (torch 2.13, _ToTorchTensor and _FromTorchTensor in
// tensor/_api.py, Redistribute in tensor/_redistribute.py; transformers 5.23, _AllReduceBackward in
// distributed/parallel_utils.py): to_local() takes what comes for the layout that it was told, from_local() brings it
// back to its own, a redistribution goes the other way.
void step_back(Backward& b, const TapeEntry& entry);

}  // namespace tpplan
