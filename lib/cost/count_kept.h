// What an operation keeps for the backward pass: memory of others, and what it makes for itself.
#pragma once

#include <functional>

#include "cost/follow_memory.h"

namespace tpplan {

// Where what is kept goes: memory that is there already, or bytes that nobody else has.
struct KeptSink {
  std::function<void(StorageId)> storage;
  std::function<void(uint64_t bytes)> own;
};

// Nothing where the operation's results want no gradient.
void count_kept(const StepTrace& trace, const OpGraph& graph, const StepMemory& memory, size_t op,
                const KeptSink& sink);

[[nodiscard]] bool wants_gradient(const StepTrace& trace, const TracedOp& op);

}  // namespace tpplan
