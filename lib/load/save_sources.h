// Saving: the rank's own files of a folder, from the memory that the caller names.
#pragma once

#include <cstddef>

#include "load/load_state.h"

namespace tpplan {

// A Refusal or a Fault where it cannot be written.
void save_sources(tpplan_load& load, const char* folder, const tpplan_load_target* sources, size_t count);

}  // namespace tpplan
