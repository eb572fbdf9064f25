#include "walk/state/declared_placements.h"

#include <algorithm>

namespace tpplan {

DeclaredPlacements normalised_placements(std::span<const Placement> placements, size_t ndim) {
  DeclaredPlacements declared(placements.begin(), placements.end());
  for (Placement& placement : declared) {
    if (is_shard(placement) && placement.dim < 0) placement.dim += static_cast<int>(ndim);
  }
  return declared;
}

DeclaredPlacements gradient_placements(std::span<const Placement> placements) {
  DeclaredPlacements declared(placements.begin(), placements.end());
  for (Placement& placement : declared) {
    if (placement.kind == PlacementKind::Partial) placement = {};
  }
  return declared;
}

AxisMask partial_mask(std::span<const Placement> declared) {
  AxisMask partial = 0;
  for (size_t axis = 0; axis < declared.size(); ++axis)
    partial |= declared[axis].kind == PlacementKind::Partial ? axis_bit(axis) : 0;
  return partial;
}

bool is_fully_replicated(std::span<const Placement> declared) {
  return std::all_of(declared.begin(), declared.end(),
                     [](const Placement& p) { return p.kind == PlacementKind::Replicate; });
}

}  // namespace tpplan
