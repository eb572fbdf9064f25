#include "ops/merge_maps.h"

#include <spdlog/fmt/fmt.h>

#include <utility>
#include <vector>

#include "ops/regroup_maps.h"

namespace tpplan {

MapId merge_maps(OpCall& call, OpResult& result, std::span<const MapId> parts) {
  MapTable& maps = call.table.maps;
  if (parts.size() == 1) return parts[0];
  int64_t size = 1;
  AxisMask axes = 0;
  std::vector<std::vector<int64_t>> local(1, std::vector<int64_t>(maps.ranks, 1));
  for (const MapId part : parts) {
    const DimMap& held = maps.maps[part];
    size *= held.size;
    axes |= held.axes;
    for (size_t rank = 0; rank < maps.ranks; ++rank) local[0][rank] *= held.local[rank];
  }
  std::string fault = "the pieces are no pieces of the new dim";
  const int64_t sizes[] = {size};
  const auto merged = regroup_maps(maps, parts, sizes, local, fault);
  if (merged) return merged->front();
  make_wrong(result, Code::TP5103, fmt::format("{} goes through the pieces of a dim: {}", name_of(call), fault));
  return any_map(maps, size, std::move(local[0]), axes);
}

}  // namespace tpplan
