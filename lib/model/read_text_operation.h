// Reads an operation of the graph notation.
#pragma once

#include "model/graph_text_reader.h"

namespace tpplan {

// Reads a line such as `y = linear(x, w) -> float32[2, 8]` or `y = x[1:, None] -> float32[1, 1, 8]`.
[[nodiscard]] bool read_text_operation(TextReader& reader);

}  // namespace tpplan
