// Entries of the graph's tables, of which its nodes speak by number: each function reads one entry and appends it.
#pragma once

#include "graph/read_graph.h"

namespace tpplan {

[[nodiscard]] bool read_string(GraphReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_shape(GraphReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_size(GraphReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_value(GraphReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_leaf(GraphReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_guard(GraphReader& reader, const JsonTree& tree);

}  // namespace tpplan
