// The argument of the program that a value is computed from.
#pragma once

#include "programs/program.h"

namespace tpplan::programs {

// Returns the argument of the program from which operations with one operand compute a value: views, casts, barriers,
// the slices of a scan. kNoIndex if the value is computed otherwise. @pre the program has no edges yet
[[nodiscard]] ValueIndex argument_behind(const Program& program, ValueIndex value);

}  // namespace tpplan::programs
