// Launch of the ranks: as threads of this process, or this process as one rank of a job that a launcher started.
#pragma once

#include <string>
#include <vector>

#include "exec/ranks/launch_options.h"

namespace tpplan {

// Runs `body` on every rank of this process and returns how the job ended. If the job cannot be set up, the result has
// a fault (TP8001 to TP8006).
[[nodiscard]] JobResult run_ranks(const LaunchOptions& options, const RankBody& body);

// Returns the names of all backends.
[[nodiscard]] std::vector<std::string> backend_names();

}  // namespace tpplan
