// Arguments of operations.
#pragma once

#include "graph/read_graph.h"

namespace tpplan {

// Appends the argument at `at` of an entry to OpGraph::args, its parts behind it. Values are [id]; what JSON has no
// form for starts with a letter: ["t", ...] a tuple, ["s", begin, end, step] a slice, ["x"] an ellipsis, ["e", n] an
// entry of the sizes, ["d", name] a type, ["f", text] a number that is not finite, ["h", number] a number that came
// from a tensor, ["o", text] anything else.
[[nodiscard]] bool read_arg(GraphReader& reader, const JsonTree& tree, uint32_t at);

}  // namespace tpplan
