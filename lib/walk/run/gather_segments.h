// Gathers a fused result of which each rank has a shard of every segment.
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// Gathers the last dim of a result that is sharded like the out dim of the module's weight, segment by segment. DTensor
// has no placement for that. Ranks exchange bytes, padded to the largest shard
// (tools/python/tpplan/torch/communication.py). Backward, the gradient is only sharded. Returns a DTensor unchanged.
[[nodiscard]] SlotId gather_segments(Walk& walk, SlotId in, ModuleId module, RuleId rule);

}  // namespace tpplan
