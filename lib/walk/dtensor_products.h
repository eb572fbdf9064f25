// linear and embedding on DTensors: which layouts torch chooses for them.
#pragma once

#include "walk/dtensor_run.h"

namespace tpplan {

// Sets the run's result and claim. Axis by axis, as a linear is cut (torch 2.13, _ops/_matrix_ops.py, addmm):
// - a weight cut in its out dim takes a whole input and gives a result that is cut in its last dim;
// - a weight or an input cut in the dim that is summed over cuts the other, and the result is an open sum;
// - else the result goes as the input does.
// The bias goes with the result: cut as that is, or added once to a sum that stays open.
void run_linear(DtensorRun& run);

// A table whose rows are cut is looked up by whole ids, each rank for those that it has, and gives an open sum (torch
// 2.13, _ops/_embedding_ops.py, MaskPartial); one whose columns are cut gives columns.
void run_embedding(DtensorRun& run);

}  // namespace tpplan
