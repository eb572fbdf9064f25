// Reads the tables to which graph nodes refer by index. Each function reads one entry and appends it.
#pragma once

#include "model/graph_items.h"

namespace tpplan {

[[nodiscard]] bool read_string(GraphReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_shape(GraphReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_size(GraphReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_value(GraphReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_leaf(GraphReader& reader, const JsonTree& tree);
[[nodiscard]] bool read_guard(GraphReader& reader, const JsonTree& tree);

}  // namespace tpplan
