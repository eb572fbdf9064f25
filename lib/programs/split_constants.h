// Copies of constants: each user may want another sharding.
#pragma once

#include "diagnostics/diagnostics.h"
#include "programs/program.h"

namespace tpplan::programs {

// Gives each use of a constant, by an operation that is not constant itself, a copy of its own of all that computes the
// constant; scalars stay shared. Broadcasts of scalars are copied, too. Removes the constants without uses. Reports
// TP9001 if the copies are too many.
void split_constants(Program& program, Diagnostics& diagnostics);

}  // namespace tpplan::programs
