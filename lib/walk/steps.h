// What styles do with a value at a boundary, step by step. Whatever runs a plan, its programs are made of these.
#pragma once

#include "walk/walk_state.h"

namespace tpplan {

// One step of `rule`'s style on a value that enters or leaves (`output`) a module. Gives the slot of what it became.
[[nodiscard]] SlotId run_step(Walk& walk, StepKind kind, std::span<const Placement> placements, SlotId slot,
                              ModuleId module, RuleId rule, bool output, const SentTypes& sent = {});

// The identity, whose gradient is summed over one axis.
[[nodiscard]] SlotId sum_gradient(Walk& walk, SlotId in, size_t axis, RuleId rule);

}  // namespace tpplan
