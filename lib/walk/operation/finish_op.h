// The completion of an operation: slots of its results, causes of its errors, its entry on the tape.
#pragma once

#include <span>

#include "walk/state/walk_state.h"

namespace tpplan {

// Completes an operation. `entry`: its result for operands without errors. `ins`: its operands. A result is wrong if an
// operand is (the first cause is passed on) or if the operation makes it so. The run ends if a rank raises an error.
// The walk ends if the operation has no rule, because nothing after it is certain.
void finish_op(Walk& walk, const GraphNode& node, uint32_t index, const MemoEntry& entry,
               std::span<const TapeSlot> ins);

}  // namespace tpplan
