// Declared placements of a DTensor and of its gradient, one for each axis of the walk.
#pragma once

#include <span>

#include "ops/value_layout.h"

namespace tpplan {

[[nodiscard]] inline AxisMask axis_bit(size_t axis) { return AxisMask{1} << axis; }
[[nodiscard]] inline Placement shard_of(size_t dim) {
  return {.kind = PlacementKind::Shard, .dim = static_cast<int>(dim)};
}

// Returns the placements with negative dims made non-negative.
[[nodiscard]] DeclaredPlacements normalised_placements(std::span<const Placement> placements, size_t ndim);
// Returns the placements of the gradient of a value with these placements. The gradient of a partial value is
// replicated, because d(sum)/d(partial value) is 1.
[[nodiscard]] DeclaredPlacements gradient_placements(std::span<const Placement> placements);

// Returns the axes whose placement is Partial.
[[nodiscard]] AxisMask partial_mask(std::span<const Placement> declared);
[[nodiscard]] bool is_fully_replicated(std::span<const Placement> declared);

}  // namespace tpplan
