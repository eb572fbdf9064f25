// Derivatives that torch makes of several operations by elements, each of which chooses its way (torch 2.13,
// FunctionsManual.cpp): of sums and means, norms, deviations, largest values, and of what is divided by.
#pragma once

#include "walk/back_call.h"

namespace tpplan {

// The order that a call of norm or linalg_vector_norm asks for; 2 where it names none.
[[nodiscard]] double norm_order(Walk& walk, const TapeEntry& entry);

[[nodiscard]] bool has_derivative(const BackCall& c);
// Sets the claim of the operand's gradient, and lists what is called for it. False where a way is not known.
[[nodiscard]] bool derive(BackCall& c, Claim& claim);

}  // namespace tpplan
