// Saving of the rank's files of a sharded checkpoint from the caller's memory.
#pragma once

#include <cstddef>

#include "exec/load/load_state.h"

namespace tpplan {

// Writes this rank's files into `folder`; rank 0 also writes the folder's note. Throws a RequestError or a Fault.
void save_sources(tpplan_load& load, const char* folder, const tpplan_load_target* sources, size_t count);

}  // namespace tpplan
