// Writes the StepTrace of rank 0 during the walk; does nothing if no trace was requested.
#pragma once

#include <span>

#include "walk/state/walk_state.h"

namespace tpplan {

// Adds an operation after its run. `ins`: the slots of its operands. Its results are the current slots of its values.
void trace_operation(Walk& walk, const GraphNode& node, uint32_t index, std::span<const SlotId> ins);
// Adds the entry of a module, before its hooks change the arguments, or its exit.
void trace_boundary(Walk& walk, const GraphNode& node, uint32_t index);
// Adds the final state of all slots, after the last operation.
void finish_trace(Walk& walk);

}  // namespace tpplan
