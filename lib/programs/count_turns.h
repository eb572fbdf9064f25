// The turns of loops.
#pragma once

#include <cstdint>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "programs/program.h"

namespace tpplan::programs {

// Returns how often the operations of each block run in a step. A loop runs as often as the largest constant of its
// condition. Reports TP9001 if a number exceeds 2^53.
[[nodiscard]] std::vector<int64_t> count_turns(const Program& program, Diagnostics& diagnostics);

}  // namespace tpplan::programs
