// Check for token ids that torch's RowwiseParallel all-gathers.
#pragma once

#include "resolve/heuristics/heuristic_input.h"

namespace tpplan {

// Reports TP5020. @pre the boundaries are inferred.
void check_token_ids(const HeuristicInput& in);

}  // namespace tpplan
