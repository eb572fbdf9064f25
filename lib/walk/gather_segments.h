// The whole of a fused result of which each rank has its piece of every segment.
#pragma once

#include "walk/walk_state.h"

namespace tpplan {

// The whole of a result whose last dim is cut as the out dim of the module's weight is, segment by segment: DTensor has
// no word for that. Ranks exchange bytes, padded to the largest piece (tools/python/tpplan/torch/communication.py); the
// gradient is only cut.
[[nodiscard]] SlotId gather_segments(Walk& walk, SlotId in, ModuleId module, RuleId rule);

}  // namespace tpplan
