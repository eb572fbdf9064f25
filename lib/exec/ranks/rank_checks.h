// Checks of `tpplan-exec doctor` for launchers, backends and the machine.
#pragma once

#include <vector>

#include "exec/device/cuda_checks.h"
#include "exec/ranks/rank_source.h"

namespace tpplan {

// Returns the checks of the local backend (executed with two ranks), processors, memory, Open MPI and the launcher's
// environment variables.
[[nodiscard]] std::vector<Check> rank_checks(const Environment& environment);

}  // namespace tpplan
