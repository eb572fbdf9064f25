// Conversions of plain tensors to DTensors and back, where declared placements can begin to differ from actual layouts.
#pragma once

#include "walk/state/walk_state.h"

namespace tpplan {

// The source of a sharded dim's global size.
enum class GlobalSizeSource : uint8_t {
  Ranks,  // the local size of rank 0 times the number of ranks, as in torch's from_local
  Width,  // the module's width
  Count,  // the sum of the local sizes, which ranks all-reduce unless the width is known
};

// Converts a plain tensor to a DTensor. DTensor.from_local does not check its arguments (run_check=False, torch 2.13,
// tensor/_api.py): the placements are declared whether or not they are true. If the global size is known (Width,
// Count), the local size of each rank must be its chunk of it, because every operation assumes that. The run crashes if
// it is not.
[[nodiscard]] SlotId from_local(Walk& walk, SlotId in, std::span<const Placement> placements, GlobalSizeSource size_of,
                                int64_t width, RuleId rule);

// Returns the local tensor of a DTensor; a plain tensor is unchanged. `partial_axes`: the axes along which the gradient
// of a replicated value is declared Partial (grad_placements).
[[nodiscard]] SlotId to_local(Walk& walk, SlotId in, AxisMask partial_axes, RuleId rule);

}  // namespace tpplan
