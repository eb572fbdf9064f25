// Which of many boxes meet another one, without a look at all of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sharding/boxes.h"

namespace tpplan {

// Boxes in the order of where they begin in the dim that cuts them most.
struct BoxIndex {
  size_t dim = 0;
  uint64_t longest = 0;  // of a box in that dim
  std::vector<uint64_t> begins;
  std::vector<uint32_t> numbers;  // of the boxes, as the caller counts them
};

// Empty boxes meet nothing, and are left out.
[[nodiscard]] BoxIndex index_boxes(std::span<const Box> boxes);

// The numbers of the boxes that may meet `box`, ascending: all that do, and where several dims are cut some that do
// not.
[[nodiscard]] std::vector<uint32_t> boxes_near(const BoxIndex& index, const Box& box);

}  // namespace tpplan
