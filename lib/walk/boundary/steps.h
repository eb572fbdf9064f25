// The steps of styles at module boundaries, from which the programs of all runtimes are built.
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// Applies a step of `rule`'s style to a value at the entry or the exit (`output`) of a module. Returns the new slot.
[[nodiscard]] SlotId run_step(Walk& walk, StepKind kind, std::span<const Placement> placements, SlotId slot,
                              ModuleId module, RuleId rule, bool output, const SentTypes& sent = {});

// Adds an identity whose gradient is all-reduced over one axis.
[[nodiscard]] SlotId sum_gradient(Walk& walk, SlotId in, size_t axis, RuleId rule);

}  // namespace tpplan
