// Reads arguments of operations.
#pragma once

#include "model/graph_items.h"

namespace tpplan {

// Appends the argument at node `at` to OpGraph::args, followed by its elements. A value is [id]. Arguments without a
// JSON form are arrays with a tag:
// - ["t", ...]: a tuple
// - ["s", begin, end, step]: a slice
// - ["x"]: an ellipsis
// - ["e", n]: entry n of the sizes
// - ["d", name]: a type
// - ["f", text]: a number that is not finite
// - ["h", number]: a number read from a tensor
// - ["o", text]: anything else
[[nodiscard]] bool read_arg(GraphReader& reader, const JsonTree& tree, uint32_t at);

}  // namespace tpplan
