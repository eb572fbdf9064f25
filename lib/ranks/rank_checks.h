// What of launchers, backends and the machine itself is found here.
#pragma once

#include <vector>

#include "device/cuda_checks.h"
#include "ranks/rank_source.h"

namespace tpplan {

// Threads as ranks (tried out), processors, memory, Open MPI, the launcher's variables.
[[nodiscard]] std::vector<Check> rank_checks(const Environment& environment);

}  // namespace tpplan
