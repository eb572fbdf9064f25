// Finds which of many boxes intersect another one, without testing all of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sharding/boxes.h"

namespace tpplan {

// Boxes sorted by their first index in the dim that splits them most.
struct BoxIndex {
  size_t dim = 0;
  uint64_t longest = 0;  // of a box in that dim
  std::vector<uint64_t> begins;
  std::vector<uint32_t> numbers;  // indices of the boxes in the caller's list
};

// Builds the index. It omits empty boxes.
[[nodiscard]] BoxIndex index_boxes(std::span<const Box> boxes);

// Returns the indices, ascending, of the boxes that can intersect `box`: all that do, and, if several dims are split,
// some that do not.
[[nodiscard]] std::vector<uint32_t> boxes_near(const BoxIndex& index, const Box& box);

}  // namespace tpplan
