#include "walk/claims.h"

#include <algorithm>

#include "walk/walk_state.h"

namespace tpplan {

Claim whole_claim(const Walk& walk) { return Claim(walk.axes.size()); }

Claim normalised(std::span<const Placement> placements, size_t ndim) {
  Claim claim(placements.begin(), placements.end());
  for (Placement& placement : claim) {
    if (is_shard(placement) && placement.dim < 0) placement.dim += static_cast<int>(ndim);
  }
  return claim;
}

Claim for_gradient(std::span<const Placement> placements) {
  Claim claim(placements.begin(), placements.end());
  for (Placement& placement : claim) {
    if (placement.kind == PlacementKind::Partial) placement = {};
  }
  return claim;
}

AxisMask open_mask(std::span<const Placement> claim) {
  AxisMask open = 0;
  for (size_t axis = 0; axis < claim.size(); ++axis)
    open |= claim[axis].kind == PlacementKind::Partial ? axis_bit(axis) : 0;
  return open;
}

bool is_strided(std::span<const Placement> claim) {
  return std::any_of(claim.begin(), claim.end(),
                     [](const Placement& p) { return p.kind == PlacementKind::StridedShard; });
}

bool is_whole(std::span<const Placement> claim) {
  return std::all_of(claim.begin(), claim.end(), [](const Placement& p) { return p.kind == PlacementKind::Replicate; });
}

}  // namespace tpplan
