// Constraints act on what they constrain.
#pragma once

#include "programs/program.h"

namespace tpplan::programs {

// Gives the input of each constraint its sharding if the input has none, the constraint leaves no dim open and no other
// constraint of the input differs. An input that is shared by an edge keeps its freedom; its users use the constraint's
// result instead. Behind a chain of constraints, users of the input use the last result.
void apply_constraints(Program& program);

}  // namespace tpplan::programs
