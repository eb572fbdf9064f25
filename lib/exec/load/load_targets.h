// Checks of the memory that a caller passes for loading or saving.
#pragma once

#include <cstddef>
#include <vector>

#include "exec/load/load_state.h"

namespace tpplan {

// The targets of one read. Tied names have the same bytes: these are read into the first requested target and copied to
// the others.
struct ReadTargets {
  std::vector<std::vector<size_t>> of;  // by tensor (of tied tensors the first): indices of its targets
  std::vector<bool> omitted;            // by tensor: no target was requested under this name
};

// Groups the targets by tensor. Throws a RequestError for a target with a wrong index, size or pointer, or a duplicate.
[[nodiscard]] ReadTargets check_targets(const tpplan_load& load, const tpplan_load_target* targets, size_t count);

// Throws a RequestError if two targets overlap in memory. Only targets of tied names may have the same address.
void reject_shared_memory(const tpplan_load& load, const tpplan_load_target* targets, size_t count);

}  // namespace tpplan
