// Operations and boundaries of modules, in the order in which they ran.
#pragma once

#include "graph/read_graph.h"

namespace tpplan {

// Appends an entry of `nodes`: "@enter" and "@exit" are boundaries, all other names are operations. The names stand in
// `strings`, which comes before.
[[nodiscard]] bool read_node(GraphReader& reader, const JsonTree& tree);

}  // namespace tpplan
