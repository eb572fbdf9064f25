#include "walk/state/declared_placements.h"

#include <algorithm>

namespace tpplan {

DeclaredPlacements normalised(std::span<const Placement> placements, size_t ndim) {
  DeclaredPlacements claim(placements.begin(), placements.end());
  for (Placement& placement : claim) {
    if (is_shard(placement) && placement.dim < 0) placement.dim += static_cast<int>(ndim);
  }
  return claim;
}

DeclaredPlacements for_gradient(std::span<const Placement> placements) {
  DeclaredPlacements claim(placements.begin(), placements.end());
  for (Placement& placement : claim) {
    if (placement.kind == PlacementKind::Partial) placement = {};
  }
  return claim;
}

AxisMask partial_mask(std::span<const Placement> claim) {
  AxisMask open = 0;
  for (size_t axis = 0; axis < claim.size(); ++axis)
    open |= claim[axis].kind == PlacementKind::Partial ? axis_bit(axis) : 0;
  return open;
}

bool is_fully_replicated(std::span<const Placement> claim) {
  return std::all_of(claim.begin(), claim.end(), [](const Placement& p) { return p.kind == PlacementKind::Replicate; });
}

}  // namespace tpplan
