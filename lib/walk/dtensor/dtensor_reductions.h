// Strategies that torch chooses for operations along dims of DTensors (torch 2.13, _ops/_math_ops.py).
#pragma once

#include "walk/dtensor/dtensor_run.h"

namespace tpplan {

// True for a sum, mean, maximum, minimum or norm of one tensor. Over a sharded dim their result is Partial with their
// reduce op. Other operations along a dim need it replicated.
[[nodiscard]] bool is_partial_reduction(const DtensorRun& run);
void run_reduction(DtensorRun& run);

// Runs a layer_norm, which allows shards of the dims before the normalised ones.
void run_layer_norm(DtensorRun& run);
// Run an operation without a strategy, which torch decomposes.
void run_rms_norm(DtensorRun& run);
void run_normalize(DtensorRun& run);

}  // namespace tpplan
