// Reading: threads fill the targets while the caller's callbacks hear of it.
#pragma once

#include <cstddef>

#include "load/load_state.h"

namespace tpplan {

// A Refusal, a Fault, or Stopped where it does not come to its end; the threads have ended then.
[[nodiscard]] tpplan_load_result read_targets(tpplan_load& load, const tpplan_load_target* targets, size_t count,
                                              const tpplan_load_options& options);

}  // namespace tpplan
