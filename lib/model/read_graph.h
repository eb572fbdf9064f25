// Reads the field "graph" of a model file as a stream into an OpGraph.
#pragma once

#include "model/graph_items.h"

namespace tpplan {

// Returns the `read_json` visitor for the fields of `"graph"`. It reports malformed entries (TP2003); prove_graph
// checks the consistency of ids, shapes and boundaries. The visitor points into `reader`.
[[nodiscard]] JsonVisitor graph_visitor(GraphReader& reader);

}  // namespace tpplan
