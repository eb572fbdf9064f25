// Torch's backward of operations on DTensors. Its operations choose strategies like those in the forward pass
// (walk/dtensor/dtensor_strategies.h) and redistribute their operands. This applies only if all DTensors are as
// declared: then a gradient is partial if and only if it is declared so.
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// Redistributes the gradient of result `o` if torch does so once for all operands. Sums, views and transposes use the
// gradient as it is; others need it in the layout of the result.
void redistribute_result_grad(Backward& b, const TapeEntry& entry, size_t o);

// Computes the gradient of operand `i` by the kind of the operation. Each of the two matmuls in the backward of a
// matmul has the result's gradient and the other operand. Autograd saved that operand before the forward redistributed
// it (torch 2.13, autograd/derivatives.yaml, mm and bmm), so a tensor gathered forward can be gathered again. Returns
// false for other operations, whose placements then follow from layouts.
[[nodiscard]] bool dtensor_grad(Backward& b, const TapeEntry& entry, size_t i, size_t o, Grad& grad);

}  // namespace tpplan
