// The end of an operation: its results get slots, its faults causes, the walk back an entry.
#pragma once

#include <span>

#include "walk/walk_state.h"

namespace tpplan {

// `entry` is what the operation makes of operands that are right; `ins` are those that it saw. A result is wrong where
// an operand is (the first cause goes on) or where the operation makes it so. The run ends where a rank would raise an
// error, and the walk where nothing certain can be said of what follows.
void finish_op(Walk& walk, const GraphNode& node, uint32_t index, const MemoEntry& entry,
               std::span<const TapeSlot> ins);

}  // namespace tpplan
