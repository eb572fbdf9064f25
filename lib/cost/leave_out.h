// Layers whose values stand in memory as those of the layer before are not followed, one by one.
#pragma once

#include "cost/follow_memory.h"

namespace tpplan {

// Where following a trace is in the layers that the walk says are alike (StepTrace::alike).
struct AlikeLayers {
  size_t next = 0;                // into StepTrace::alike
  std::vector<StorageId> begins;  // how many storages there were where each layer began, from the last but one on that
                                  // was walked
};

// Before operation `op`: the one to go on with, `op` itself where nothing is left out. Layers are left out where what
// the next one takes lies in memory as what the one before it took, but for the numbers; and nobody behind them takes
// a value of one but the last, whose values then stand where those of the last one that was followed do.
[[nodiscard]] size_t leave_out(const StepTrace& trace, StepMemory& memory, AlikeLayers& at, size_t op);

}  // namespace tpplan
