// The memory that an operation saves for the backward pass.
#pragma once

#include <functional>

#include "cost/step_memory.h"

namespace tpplan {

// Receives what is saved: storages of existing values, or the bytes of additional tensors.
struct SavedSink {
  std::function<void(StorageId)> storage;
  std::function<void(uint64_t bytes)> extra;
};

// Saves nothing if the results of the operation require no gradient.
void count_saved(const StepTrace& trace, const OpGraph& graph, const StepMemory& memory, size_t op,
                 const SavedSink& sink);

[[nodiscard]] bool wants_gradient(const StepTrace& trace, const TracedOp& op);

}  // namespace tpplan
