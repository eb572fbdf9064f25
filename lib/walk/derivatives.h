// Derivatives that torch makes of several operations by elements, each of which chooses its way (torch 2.13,
// FunctionsManual.cpp): of sums and means, norms, largest values, and of what is divided by.
#pragma once

#include "walk/back_call.h"

namespace tpplan {

[[nodiscard]] bool has_derivative(const BackCall& c);
// Sets the claim of the operand's gradient, and lists what is called for it. False where a way is not known.
[[nodiscard]] bool derive(BackCall& c, Claim& claim);

}  // namespace tpplan
