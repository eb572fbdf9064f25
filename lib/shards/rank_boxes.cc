#include "shards/rank_boxes.h"

#include <utility>

namespace tpplan {

std::vector<RankBoxes> list_rank_boxes(const Manifest& manifest) {
  std::vector<RankBoxes> all(manifest.layouts.size());
  const int64_t ranks = device_count(manifest.mesh);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const std::vector<int64_t> coordinate = coordinate_of(manifest.mesh, rank);
    for (size_t i = 0; i < all.size(); ++i) {
      const ParamLayout& layout = manifest.layouts[i];
      if (!is_first_holder(layout, manifest.mesh, coordinate)) continue;
      const std::vector<Runs> slice = shard_slice(layout.shape, layout.sharding, manifest.mesh, coordinate);
      uint32_t run = 0;
      for (HeldBox& held : held_boxes(layout.shape, layout.dtype, slice)) {
        all[i].ranks.push_back(static_cast<int>(rank));
        all[i].runs.push_back(run++);
        all[i].boxes.push_back(std::move(held.box));
      }
    }
  }
  for (RankBoxes& boxes : all) boxes.index = index_boxes(boxes.boxes);
  return all;
}

}  // namespace tpplan
