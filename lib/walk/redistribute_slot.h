// DTensor.redistribute: a DTensor is brought to other placements.
#pragma once

#include "walk/walk_state.h"

namespace tpplan {

// Ranks call what the claims ask for, step by step (sharding/redistribute.h). Each step does to the truth what the
// collective does to what ranks hold: where that is not what the claim says (what is gathered is no piece, what is
// summed is complete), the result is wrong. `on_tape`: the walk back goes over it as a step; what DTensor does inside
// of an operation goes back with that, and its calls are hidden. `sent`: DTensor.redistribute's forward_dtype and
// backward_dtype (torch 2.13, tensor/_api.py and _redistribute.py): the value is cast before it is sent and stays so,
// its gradient is cast before it is sent and becomes the value's old type again; with them it is a step on the tape
// where the placements are the same, too.
[[nodiscard]] SlotId redistribute_slot(Walk& walk, SlotId slot, std::span<const Placement> to, bool on_tape,
                                       const SentTypes& sent = {});

// The value in the type that it is sent in, as Tensor.to does it.
[[nodiscard]] SlotId cast_slot(Walk& walk, SlotId slot, const SentTypes& sent, RuleId rule);

}  // namespace tpplan
