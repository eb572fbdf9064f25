// Opening of a load: reads the manifest, opens the weights and computes the rank's shards.
#pragma once

#include <string>

#include "exec/load/load_state.h"

namespace tpplan {

// Texts of several diagnostics, and their exit status.
struct LoadErrors {
  std::string text;
  int status = TPPLAN_LOAD_WRONG;
};

// Reads the text of the manifest, from a path or from memory. Throws a RequestError or a Fault.
void read_source(tpplan_load& load, const tpplan_load_source& source);

// Opens the manifest and the weights. Returns all errors found, and stores warnings. Throws a RequestError for invalid
// arguments.
[[nodiscard]] LoadErrors open_manifest_and_weights(tpplan_load& load, const tpplan_load_source& source);

}  // namespace tpplan
