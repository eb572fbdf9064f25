// The memory of a step, part by part (search/part_memory.h), from its log.
#pragma once

#include <vector>

#include "cost/memory_log.h"
#include "search/part_memory.h"

namespace tpplan {

// `own` and `optimizer` of the ends include the layers'.
struct StepProfile {
  EndMemory ends;
  std::vector<LayerMemory> layers;
};

// Returns the profile of a step without a backward pass, whose memory is counted as a whole.
[[nodiscard]] StepProfile flat_profile(uint64_t bytes, size_t layers);

// Returns the profile of a training step of a model with this number of layers.
[[nodiscard]] StepProfile profile_of(const std::vector<StagedSpan>& spans, size_t layers);

}  // namespace tpplan
