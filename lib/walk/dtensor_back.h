// What torch does on the way back between DTensors: its operations there choose their ways as those forward do
// (walk/dtensor_ways.h), and redistribute what fits none. Only where ranks hold what all DTensors claim: then the
// claims are the truth, and a gradient is a term of an open sum where it says so.
#pragma once

#include "walk/grad.h"

namespace tpplan {

// The gradient of result `o` as the operation takes it, where that is one operation for all operands. Sums, views and
// transposes take it as it is; others want it where the result is.
void bring_result_grad(Backward& b, const TapeEntry& entry, size_t o);

// The gradient of operand `i`, by a row for the operation: of the two products behind a product each gets the result's
// gradient and the other operand, which autograd kept as it was before the product redistributed it (torch 2.13,
// autograd/derivatives.yaml, mm and bmm); so what was gathered forward may be gathered again. False where no row says:
// then claims follow layouts.
[[nodiscard]] bool dtensor_grad(Backward& b, const TapeEntry& entry, size_t i, size_t o, Grad& grad);

}  // namespace tpplan
