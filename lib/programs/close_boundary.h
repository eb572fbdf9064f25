// Shardings of arguments and results of a program.
#pragma once

#include "programs/program.h"

namespace tpplan::programs {

// Removes axes from the arguments and results of a program that do not divide their dims, and the parts of axes that
// propagation added: a program's boundary has whole axes only.
void close_boundary(Program& program);

}  // namespace tpplan::programs
