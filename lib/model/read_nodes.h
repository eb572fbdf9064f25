// Reads operations and module boundaries in execution order.
#pragma once

#include "model/graph_items.h"

namespace tpplan {

// Appends an entry of `nodes`: "@enter" and "@exit" are module boundaries, all other names are operations. Names are in
// `strings`, which precedes `nodes` in the file.
[[nodiscard]] bool read_node(GraphReader& reader, const JsonTree& tree);

}  // namespace tpplan
