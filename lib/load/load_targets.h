// Whose memory is filled, or saved: what a caller names, held against what the rank has.
#pragma once

#include <cstddef>
#include <vector>

#include "load/load_state.h"

namespace tpplan {

// The targets of one reading. Tied names share bytes: those are read into the first of them that is asked for, and
// copied on.
struct Targets {
  std::vector<std::vector<size_t>> of;  // by tensor, of tied ones by the first: numbers of targets
  std::vector<bool> left_out;           // by tensor: nobody asked for it, under this name
};

// A Refusal where one cannot be what it says.
[[nodiscard]] Targets check_targets(const tpplan_load& load, const tpplan_load_target* targets, size_t count);

// A Refusal where two of them would be read into the same bytes, which names that are tied may.
void refuse_shared_memory(const tpplan_load& load, const tpplan_load_target* targets, size_t count);

}  // namespace tpplan
