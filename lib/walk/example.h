// What goes wrong, shown on two ranks: the operation with pieces of one element, beside what belongs there; or the
// shapes that meet.
#pragma once

#include <string>

#include "walk/example_table.h"
#include "walk/walk_state.h"

namespace tpplan {

// The operation is carried out on what two ranks hold, as its operands' layouts say: no rows where its arithmetic is
// not known here, or where the numbers do not show what was found (`crashes`: that there is no result; else that it is
// another one).
[[nodiscard]] Example operation_example(const Walk& walk, const GraphNode& node, bool crashes);

// Where a run ends: what rank 0 has of each operand, or of what passes the boundary, and the first rank that has
// another part; and the sizes that a view is asked for. `reason` is its conclusion.
[[nodiscard]] Example crash_example(Walk& walk, const GraphNode& node, const std::string& reason);

// Of a value that leaves the model as this layout has it.
[[nodiscard]] Example result_example(const Walk& walk, const Spread& layout);

// Of what is done to a value or to a gradient by itself: TP5109, TP5111 and TP5112; no rows for other codes.
[[nodiscard]] Example sum_example(Code code);

}  // namespace tpplan
