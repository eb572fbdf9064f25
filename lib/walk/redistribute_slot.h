// DTensor.redistribute: a DTensor is brought to other placements.
#pragma once

#include "walk/walk_state.h"

namespace tpplan {

// Ranks call what the claims ask for, step by step (sharding/redistribute.h). Each step does to the truth what the
// collective does to what ranks hold: where that is not what the claim says (what is gathered is no piece, what is
// summed is complete), the result is wrong. `on_tape`: the walk back goes over it as a step; what DTensor does inside
// of an operation goes back with that, and its calls are hidden.
[[nodiscard]] SlotId redistribute_slot(Walk& walk, SlotId slot, std::span<const Placement> to, bool on_tape);

}  // namespace tpplan
