// Operations along dims of DTensors: which layouts torch chooses for them (torch 2.13, _ops/_math_ops.py).
#pragma once

#include "walk/dtensor_run.h"

namespace tpplan {

// Sums, means, largest values and norms over a cut dim leave an open result of their own kind; other operations along a
// dim have no row, and want the dim whole.
[[nodiscard]] bool is_open_reduction(const DtensorRun& run);
void run_reduction(DtensorRun& run);

// Dims before those that are normalised may be cut.
void run_layer_norm(DtensorRun& run);
// No kernel on its own: its parts run one after the other.
void run_rms_norm(DtensorRun& run);
void run_normalize(DtensorRun& run);

}  // namespace tpplan
