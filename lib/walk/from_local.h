// Plain tensors into DTensors and back: where the truth and the claim part.
#pragma once

#include "walk/walk_state.h"

namespace tpplan {

// What a dim's whole size is taken for.
enum class SizeOf : uint8_t {
  Ranks,  // as many as all ranks would hold if they held what rank 0 does: torch's own from_local
  Width,  // the module's own width
  Count,  // the sum of what the ranks hold, which they tell each other; a width that is known needs no telling
};

// Makes a DTensor of what ranks hold. DTensor.from_local believes its caller (run_check=False, torch 2.13,
// tensor/_api.py): the placements become the claim, and nobody looks whether they are true. Only the sizes show: what a
// rank holds must be its chunk of the size that is claimed, as every operation on it assumes.
[[nodiscard]] SlotId from_local(Walk& walk, SlotId in, std::span<const Placement> placements, SizeOf size_of,
                                int64_t width, RuleId rule);

// What the rank holds of a DTensor; a plain tensor stays. `open`: axes over which the gradient of what is whole is
// taken for an open sum (grad_placements).
[[nodiscard]] SlotId to_local(Walk& walk, SlotId in, AxisMask open, RuleId rule);

}  // namespace tpplan
