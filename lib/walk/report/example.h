// Examples of errors on two ranks: the operation on shards of one element with the right result, or the shapes that do
// not fit.
#pragma once

#include <string>

#include "walk/state/example_table.h"
#include "walk/state/walk_state.h"

namespace tpplan {

// Evaluates the operation on two ranks with the layouts of its operands. Returns no rows if its arithmetic is unknown
// here, or if the numbers do not show the error. `crashes`: the error is that there is no result; otherwise the result
// is wrong.
[[nodiscard]] Example operation_example(const Walk& walk, const GraphNode& node, bool crashes);

// Shows the local shapes where a run fails, on rank 0 and on the first rank with another shard. They are those of the
// operands, or of the values at the boundary. A view also has the requested sizes. `reason` is the conclusion.
[[nodiscard]] Example crash_example(Walk& walk, const GraphNode& node, const std::string& reason);

// Shows a value with this layout as output of the model.
[[nodiscard]] Example result_example(const Walk& walk, const ValueLayout& layout);

// Shows a missing or a redundant reduction: TP5109, TP5111 and TP5112. Returns no rows for other codes.
[[nodiscard]] Example sum_example(Code code);

}  // namespace tpplan
