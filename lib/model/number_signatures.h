// Numbers the signatures of operations. Operations that differ only in their operands have equal signatures.
#pragma once

#include "model/op_graph.h"

namespace tpplan {

// Sets GraphNode::signature and OpGraph::signatures. Two ops have the same signature if their names, literals and
// results are equal; operand values and sizes do not count. @pre all ids are valid.
void number_signatures(OpGraph& graph);

}  // namespace tpplan
