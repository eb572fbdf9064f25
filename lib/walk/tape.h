// What the walk back goes over: one entry for each operation or step whose result has a gradient.
#pragma once

#include <span>

#include "walk/walk_state.h"

namespace tpplan {

// `ins` and `outs` with the layouts that the operation saw: a slot's own may be another by then.
void add_to_tape(Walk& walk, TapeEntry entry, std::span<const TapeSlot> ins, std::span<const TapeSlot> outs);

// A step from one slot to another. Nothing where no gradient goes through it.
void record_step(Walk& walk, TapeKind kind, SlotId in, SlotId out, Claim gradient, RuleId rule, size_t axis = 0,
                 std::string_view dtype = {});

}  // namespace tpplan
