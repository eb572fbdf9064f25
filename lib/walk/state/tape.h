// The tape of the backward pass: one entry for each operation or step whose result has a gradient.
#pragma once

#include <span>

#include "walk/state/walk_state.h"

namespace tpplan {

// Adds an entry. `ins` and `outs` have the layouts at that time, because the layout of a slot can change later.
void add_to_tape(Walk& walk, TapeEntry entry, std::span<const TapeSlot> ins, std::span<const TapeSlot> outs);

// Adds a step from one slot to another. Does nothing if the input needs no gradient.
void append_step(Walk& walk, TapeKind kind, SlotId in, SlotId out, DeclaredPlacements gradient, RuleId rule,
                 size_t axis = 0, std::string_view dtype = {});

// Returns the operation of an entry; Unknown for an in-place one, whose backward follows from the layouts only, and for
// an entry of a module boundary.
[[nodiscard]] OpId op_of(const Walk& walk, const TapeEntry& entry);

}  // namespace tpplan
