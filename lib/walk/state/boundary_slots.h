// The slots of values at module boundaries, by which the gradients of a walk are found.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "walk/state/walk_state.h"

namespace tpplan {

// Notes the slot of a value after the steps of a style at the current module. `first`: the size of the tape before
// these steps. Does nothing if the gradients of boundaries are not requested and no declared layout is overridden.
void add_boundary_slot(Walk& walk, RuleId rule, bool is_output, int arg, std::string_view kwarg, size_t first,
                       SlotId slot, std::optional<OverriddenLayout> overridden = {});

// Returns the declared layout and the placement of a value along the axis of the rule, if the value is a DTensor and
// they differ.
[[nodiscard]] std::optional<OverriddenLayout> overridden_layout(const Walk& walk, RuleId rule,
                                                                std::span<const Placement> declared, SlotId slot);

// Notes that a gradient has been added to a slot.
void note_grad_arrival(Walk& walk, SlotId slot, const Grad& grad);

// Lists the gradients of boundaries that the backward pass has reached.
void list_walked_gradients(const Walk& walk);

}  // namespace tpplan
