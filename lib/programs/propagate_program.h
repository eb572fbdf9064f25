// The order of the phases of propagation on a recorded program.
#pragma once

#include <vector>

#include "diagnostics/diagnostics.h"
#include "programs/insert_reshards.h"
#include "programs/program.h"

namespace tpplan::programs {

// A program with the shardings of its values, and its collectives.
struct Propagation {
  Program program;
  std::vector<std::vector<std::vector<AxisParts>>> shardings;  // of each recorded value: those of all its copies
  std::vector<ProgramCollective> shardy, xla;                  // what Shardy inserts, and what XLA sends
  std::vector<OperationIndex> unruled;                         // operations without a rule
};

// Propagates the shardings of a program. The result is invalid if an error was reported.
[[nodiscard]] Propagation propagate_program(Program program, Diagnostics& diagnostics);

}  // namespace tpplan::programs
