// Whether every rank has the memory for what comes next, decided by all of them together.
#pragma once

#include <cstdint>

#include "ranks/backend.h"

namespace tpplan {

// Each rank says whether its share of the device's free memory holds `bytes`; `enough` is set on all of them when it
// does on all. False after a fault in `comm`.
bool vote_on_memory(Comm& comm, uint64_t bytes, bool& enough);

}  // namespace tpplan
