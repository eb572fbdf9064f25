// Reading of the targets: threads fill them while the calling thread executes the callbacks.
#pragma once

#include <cstddef>

#include "exec/load/load_state.h"

namespace tpplan {

// Fills the targets. Throws a RequestError, a Fault, or StoppedByCallback after a callback has returned nonzero; all
// threads have ended then.
[[nodiscard]] tpplan_load_result read_targets(tpplan_load& load, const tpplan_load_target* targets, size_t count,
                                              const tpplan_load_options& options);

}  // namespace tpplan
