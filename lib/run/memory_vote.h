// Whether every rank has the memory for what comes next, decided by all of them together.
#pragma once

#include <cstdint>

#include "ranks/backend.h"

namespace tpplan {

// Each rank says whether its share of the device's free memory holds `bytes`; true on all of them when it does on all.
// Throws comm.fault after a failure.
[[nodiscard]] bool vote_on_memory(Comm& comm, uint64_t bytes);

}  // namespace tpplan
