// Operations one by one: what ran before is looked up, plain values pass, everything else asks the rules.
#pragma once

#include "walk/walk_state.h"

namespace tpplan {

// Node `index` of the graph, forward.
//
// What an operation makes of its operands follows from its name and literals (GraphNode::signature), from the layout
// and recorded shape of each operand and from what each size comes to: these numbers are the key of WalkTables::memo.
// Layers that are alike so ask the rules once, and so do plans, where the tables are kept (judge_tables.h). Of an
// operation with DTensors the types of their elements count too; it is remembered where all stayed as they were, for
// redistributions are part of it, and stand in modules of their own.
void run_node(Walk& walk, const GraphNode& node, uint32_t index);

// The same by its rule alone, which sees layouts, whoever runs it.
void run_by_rule(Walk& walk, const GraphNode& node, uint32_t index);

}  // namespace tpplan
