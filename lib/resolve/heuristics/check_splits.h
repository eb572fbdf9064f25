// Check for shards that split a segment or an indivisible block: frameworks shard a dim in equal parts regardless.
#pragma once

#include "resolve/heuristics/heuristic_input.h"

namespace tpplan {

// Reports TP5013 if a shard of a fused dim has rows of one segment, but its rank expects a part of each segment.
// Reports TP5008 if a shard splits an indivisible block.
void check_splits(const HeuristicInput& in);

}  // namespace tpplan
