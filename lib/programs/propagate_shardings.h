// Shardy's propagation: shardings spread along the factors of operations until nothing changes.
#pragma once

#include "programs/operation_rules.h"
#include "programs/program.h"

namespace tpplan::programs {

// Spreads the shardings of a program over its values, in five rounds: elementwise operations whose operands have no
// other use; all elementwise operations, reshapes, transposes and edges; factors without communication, broadcasts
// only backward; the other factors; broadcasts in both directions. Each round runs to a fixpoint. Conflicts are
// resolved as in Shardy's aggressive strategy: the factor of the largest source tensor first, for each tensor
// separately.
void propagate_shardings(Program& program, const FactorRules& rules);

}  // namespace tpplan::programs
