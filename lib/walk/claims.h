// What the code believes of a DTensor, and of its gradient: placements, by axis of the walk.
#pragma once

#include <span>

#include "ops/spread.h"

namespace tpplan {

struct Walk;

[[nodiscard]] inline AxisMask axis_bit(size_t axis) { return AxisMask{1} << axis; }
[[nodiscard]] inline Placement shard_of(size_t dim) {
  return {.kind = PlacementKind::Shard, .dim = static_cast<int>(dim)};
}

[[nodiscard]] Claim whole_claim(const Walk& walk);
// Dims that count from the end count from the front.
[[nodiscard]] Claim normalised(std::span<const Placement> placements, size_t ndim);
// Of the gradient of a value that claims these: an open sum's is whole, because each term is added as it is.
[[nodiscard]] Claim for_gradient(std::span<const Placement> placements);

// The axes over which it claims to be an open sum.
[[nodiscard]] AxisMask open_mask(std::span<const Placement> claim);
[[nodiscard]] bool is_strided(std::span<const Placement> claim);
[[nodiscard]] bool is_whole(std::span<const Placement> claim);

}  // namespace tpplan
