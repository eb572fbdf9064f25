// Data flow edges: values that flow into one another through loops, branches and barriers share a sharding.
#pragma once

#include "diagnostics/diagnostics.h"
#include "programs/program.h"

namespace tpplan::programs {

// Adds an edge for each result of a while, a case and an optimization_barrier. Its sources are the values that become
// the result: of a while the initial value and what the body returns. The arguments of a while's condition and body
// share the sharding of the result. Reports loops and branches whose values do not fit. Numbers the operations.
void add_edges(Program& program, Diagnostics& diagnostics);

}  // namespace tpplan::programs
