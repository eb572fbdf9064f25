// Pieces of a plan -> its text in canonical layout.
#pragma once

#include <string>

#include "plan/plan_pieces.h"

namespace tpplan {

// Puts known keys in their order, comments to where they can stand, and everything into text.
[[nodiscard]] std::string write_pieces(PlanPieces pieces);

}  // namespace tpplan
