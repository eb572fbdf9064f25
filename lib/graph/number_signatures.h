// Which operations are alike.
#pragma once

#include "graph/op_graph.h"

namespace tpplan {

// Sets GraphNode::signature and OpGraph::signatures: equal for two ops with the same name, literals and results; values
// and sizes do not count. @pre ids exist.
void number_signatures(OpGraph& graph);

}  // namespace tpplan
