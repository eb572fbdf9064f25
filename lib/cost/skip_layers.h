// Skips layers whose memory repeats that of the layer before.
#pragma once

#include "cost/step_memory.h"

namespace tpplan {

// The position in the repeated layers of a trace (StepTrace::repeats).
struct RepeatedLayers {
  size_t next = 0;  // into StepTrace::repeats
  std::vector<StorageId>
      begins;  // number of storages at the begin of each layer, from the last but one that was walked
};

// Called before operation `op`. Returns the operation to continue with: `op` if nothing is skipped. Layers are skipped
// if the inputs of the next one have the same storages and strides, up to their ids, as those of the layer before, and
// no later operation uses a value of any of them but the last. The values of the last one then have the storages of the
// last layer that was not skipped.
[[nodiscard]] size_t skip_repeated_layers(const StepTrace& trace, StepMemory& memory, RepeatedLayers& at, size_t op);

}  // namespace tpplan
