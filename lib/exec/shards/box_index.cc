#include "exec/shards/box_index.h"

#include <algorithm>

namespace tpplan {

BoxIndex index_boxes(std::span<const Box> boxes) {
  BoxIndex index;
  for (uint32_t i = 0; i < boxes.size(); ++i) {
    if (!is_empty(boxes[i])) index.numbers.push_back(i);
  }
  if (index.numbers.empty()) return index;
  size_t most = 0;
  for (size_t d = 0; d < boxes[index.numbers[0]].begin.size(); ++d) {
    std::vector<uint64_t> begins;
    for (const uint32_t i : index.numbers) begins.push_back(boxes[i].begin[d]);
    std::ranges::sort(begins);
    const size_t distinct = static_cast<size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (distinct > most) most = distinct, index.dim = d;
  }
  std::ranges::stable_sort(index.numbers, {}, [&](uint32_t i) { return boxes[i].begin[index.dim]; });
  for (const uint32_t i : index.numbers) {
    index.begins.push_back(boxes[i].begin[index.dim]);
    index.longest = std::max(index.longest, boxes[i].end[index.dim] - boxes[i].begin[index.dim]);
  }
  return index;
}

std::vector<uint32_t> boxes_near(const BoxIndex& index, const Box& box) {
  if (index.begins.empty() || is_empty(box)) return {};
  const uint64_t low = box.begin[index.dim], least = low - std::min(low, index.longest - 1);
  const auto first = std::ranges::lower_bound(index.begins, least) - index.begins.begin();
  const auto last = std::ranges::lower_bound(index.begins, box.end[index.dim]) - index.begins.begin();
  std::vector<uint32_t> near(index.numbers.begin() + first, index.numbers.begin() + std::max(first, last));
  std::ranges::sort(near);
  return near;
}

}  // namespace tpplan
