#include "ops/merge_layouts.h"

#include <spdlog/fmt/fmt.h>

#include <utility>
#include <vector>

#include "ops/regroup_layouts.h"

namespace tpplan {

DimLayoutId merge_layouts(OpCall& call, OpResult& result, std::span<const DimLayoutId> parts) {
  DimLayoutTable& maps = call.table.maps;
  if (parts.size() == 1) return parts[0];
  int64_t size = 1;
  AxisMask axes = 0;
  std::vector<std::vector<int64_t>> local(1, std::vector<int64_t>(maps.ranks, 1));
  for (const DimLayoutId part : parts) {
    const DimLayout& held = maps.maps[part];
    size *= held.size;
    axes |= held.axes;
    for (size_t rank = 0; rank < maps.ranks; ++rank) local[0][rank] *= held.local[rank];
  }
  std::string fault = "the shards do not map to shards of the new dim";
  const int64_t sizes[] = {size};
  const auto merged = regroup_layouts(maps, parts, sizes, local, fault);
  if (merged) return merged->front();
  mark_wrong(result, Code::GlobalSizeInView,
             fmt::format("{} crosses shard boundaries of a dim: {}", name_of(call), fault));
  return unknown_dim(maps, size, std::move(local[0]), axes);
}

}  // namespace tpplan
