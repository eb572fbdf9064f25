// Operations on DTensors: torch decides by what the operands claim to be, brings them to layouts that fit (with
// collectives that no plan names), and computes on what the ranks really hold. So two things are worked out: which
// layouts it chooses, from the claims alone, and what the ranks then have, from what they hold.
#pragma once

#include "walk/node_args.h"

namespace tpplan {

// An operation some of whose operands are DTensors. A plain tensor among them is a crash, unless it has one element.
void run_on_dtensors(Walk& walk, const GraphNode& node, uint32_t index, const NodeOperands& seen);

}  // namespace tpplan
