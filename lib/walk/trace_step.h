// Writes down what rank 0 runs, while the walk goes; nothing where nobody asked for it.
#pragma once

#include <span>

#include "walk/walk_state.h"

namespace tpplan {

// An operation that has run: `ins` are the slots that it saw, its results stand at their values.
void trace_operation(Walk& walk, const GraphNode& node, uint32_t index, std::span<const SlotId> ins);
// A module is entered, before anything is done with what it is given; or was left.
void trace_boundary(Walk& walk, const GraphNode& node, uint32_t index);
// Behind the last operation: what slots are.
void finish_trace(Walk& walk);

}  // namespace tpplan
