// Runs single operations: memoized results are reused, otherwise the rule of the operation runs.
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// Runs node `index` of the graph in the forward pass.
//
// The result of an operation depends on its name and literals (GraphNode::signature), on the layout and traced shape of
// each operand, and on the value of each size. The ids of these are the key of WalkTables::memo. Identical layers thus
// run each rule once, and so do plans that share the tables (judge/judge.h). With DTensors the key also has the
// dtypes. Their result is memoized only if no operand is redistributed, because the calls of a redistribution belong to
// a module.
void run_node(Walk& walk, const GraphNode& node, uint32_t index);

// Runs the node by the rule of its operation, on the layouts of its operands, whatever the runtime is.
void run_by_rule(Walk& walk, const GraphNode& node, uint32_t index);

}  // namespace tpplan
