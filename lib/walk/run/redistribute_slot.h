// Redistribution of DTensors (DTensor.redistribute).
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// Redistributes a DTensor. Ranks call the collectives that the declared placements require, step by step
// (sharding/redistribute.h), and each step changes the actual layout as its collective does. The result is wrong if the
// actual layout is not the declared one: a gathered value is no shard, or a summed value is complete.
// `on_tape`: adds a step to the tape. If false, the redistribution is inside an operation, whose backward covers it,
// and its calls are hidden. `sent`: forward_dtype and backward_dtype of DTensor.redistribute (torch 2.13,
// tensor/_api.py and _redistribute.py). The value is cast before it is sent and keeps this dtype. Its gradient is cast
// before it is sent, and then to the value's old dtype. With them the step is on the tape even if the placements do not
// change.
[[nodiscard]] SlotId redistribute_slot(Walk& walk, SlotId slot, std::span<const Placement> to, bool on_tape,
                                       const SentTypes& sent = {});

// Casts a value to the dtype in which it is sent, as Tensor.to does.
[[nodiscard]] SlotId cast_slot(Walk& walk, SlotId slot, const SentTypes& sent, RuleId rule);

}  // namespace tpplan
