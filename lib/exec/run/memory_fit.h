// Decides on all ranks together whether each has enough memory.
#pragma once

#include <cstdint>

#include "exec/ranks/backend.h"

namespace tpplan {

// Returns the same on every rank: true if on each of them `bytes` fit into its share of the device's free memory.
// Throws comm.fault after a failure.
[[nodiscard]] bool fits_on_all_ranks(Comm& comm, uint64_t bytes);

}  // namespace tpplan
