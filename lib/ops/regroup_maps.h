// Dims that are merged and split by a view: the same elements in the same order, under other dims.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/dim_map.h"

namespace tpplan {

// The maps of consecutive dims after they were viewed as dims of other sizes with the same product. `local` has the
// sizes of the new dims on each rank, [dim][rank]. nullopt when the pieces are not pieces of the new dims, as where a
// cut goes through the middle of heads.
//
// A view (torch.Tensor.view) keeps the order of elements, row-major, in the recorded run and on each rank alike. So the
// n-th element that a rank holds stays its n-th: where it stands in the whole is known by the old maps, and the new
// ones are right if and only if they give it the same place.
[[nodiscard]] std::optional<std::vector<MapId>> regroup_maps(MapTable& table, std::span<const MapId> from,
                                                             std::span<const int64_t> to,
                                                             std::span<const std::vector<int64_t>> local,
                                                             std::string& fault);

}  // namespace tpplan
