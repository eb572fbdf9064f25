// Check for norms without a rule whose gradient is partial.
#pragma once

#include "resolve/heuristics/heuristic_input.h"

namespace tpplan {

// Reports TP5019 for norms with a partial gradient that no rule reduces. Such norms are next to sequence_parallel
// norms, or normalize queries or keys after a column-sharded projection.
void check_norms(const HeuristicInput& in);

}  // namespace tpplan
