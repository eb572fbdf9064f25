// Heuristics from names, shapes and the module tree, for checks that the walk over the operations does not cover.
#pragma once

#include "resolve/heuristics/heuristic_input.h"

namespace tpplan {

// Reports TP5008, TP5013, TP5019, TP5020 and, if the model has no operations, TP5150 to TP5156.
void check_heuristics(const HeuristicInput& in);

}  // namespace tpplan
