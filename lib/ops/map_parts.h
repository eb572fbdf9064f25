// Parts of a dim, and parts put one behind the other: what slices, splits and cats make of what ranks hold.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "ops/dim_map.h"

namespace tpplan {

// One slice [begin, end) by step of a rank's own elements.
struct LocalSlice {
  int64_t begin = 0, end = 0, step = 1;
};

// The map of a slice: each rank takes its own elements by `local`, and `whole` is what the recorded run took. A slice
// is right when ranks take, of the elements that they hold, those that lie in the recorded slice: chunk(2) of a fused
// gate and up that was cut as one dim takes others. nullopt then; `fault` says which.
[[nodiscard]] std::optional<MapId> slice_map(MapTable& table, MapId map, std::span<const LocalSlice> local,
                                             const LocalSlice& whole, std::string& fault);

// Parts one behind the other, on each rank its own. nullopt where the runs become too many to follow.
[[nodiscard]] std::optional<MapId> concat_maps(MapTable& table, std::span<const MapId> parts);

}  // namespace tpplan
