// Derivatives of reductions and of divisors. Torch computes them with several elementwise operations, each of which
// chooses a strategy (torch 2.13, FunctionsManual.cpp).
#pragma once

#include "walk/backward/backward_call.h"

namespace tpplan {

// Returns the order of a call of norm or linalg_vector_norm; 2 by default.
[[nodiscard]] double norm_order(Walk& walk, const TapeEntry& entry);

[[nodiscard]] bool has_derivative(const BackwardCall& c);
// Sets the placements of the operand's gradient and lists the calls of the derivative. Returns false if one of its
// operations has no known strategy.
[[nodiscard]] bool apply_derivative(BackwardCall& c, DeclaredPlacements& declared);

}  // namespace tpplan
