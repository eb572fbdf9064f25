#include "exec/shards/rank_boxes.h"

#include <map>
#include <span>
#include <utility>

namespace tpplan {
namespace {

constexpr size_t kMaxRanks = 64;  // boxes of a band, and so the files that its writer has open

// The sharding of one dim does not depend on the others, so the boxes of the same rows cover these completely.
std::vector<Band> list_bands(const RankBoxes& boxes, std::span<const uint64_t> sizes) {
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint32_t>> by_rows;
  for (uint32_t i = 0; i < boxes.boxes.size(); ++i)
    by_rows[{boxes.boxes[i].begin[0], boxes.boxes[i].end[0]}].push_back(i);
  std::vector<Band> bands;
  for (auto& [rows, members] : by_rows) {
    if (members.size() == 1 || members.size() > kMaxRanks) {
      for (const uint32_t i : members) bands.push_back({boxes.boxes[i], {i}});
      continue;
    }
    Box whole{std::vector<uint64_t>(sizes.size()), {sizes.begin(), sizes.end()}};
    whole.begin[0] = rows.first;
    whole.end[0] = rows.second;
    bands.push_back({std::move(whole), std::move(members)});
  }
  return bands;
}

}  // namespace

std::vector<RankBoxes> list_rank_boxes(const Manifest& manifest) {
  std::vector<RankBoxes> all(manifest.layouts.size());
  const int64_t ranks = device_count(manifest.mesh);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const std::vector<int64_t> coordinate = coordinate_of(manifest.mesh, rank);
    for (size_t i = 0; i < all.size(); ++i) {
      const ParamLayout& layout = manifest.layouts[i];
      if (!is_writing_rank(layout, manifest.mesh, coordinate)) continue;
      const std::vector<Intervals> slice = shard_slice(layout.shape, layout.sharding, manifest.mesh, coordinate);
      uint32_t run = 0;
      for (HeldBox& held : held_boxes(layout.shape, layout.dtype, slice)) {
        all[i].ranks.push_back(static_cast<int>(rank));
        all[i].runs.push_back(run++);
        all[i].boxes.push_back(std::move(held.box));
      }
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].index = index_boxes(all[i].boxes);
    all[i].bands = list_bands(all[i], byte_sizes(manifest.layouts[i].shape, manifest.layouts[i].dtype));
  }
  return all;
}

}  // namespace tpplan
