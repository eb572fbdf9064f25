// Paths that differ in numbers only, brought together: layers.0.wq.weight, layers.1.wq.weight, ...
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/path_patterns.h"

namespace tpplan {

// Paths with the same texts and the same value. The numbers at `varies` differ among them, the others are equal, and
// every path with these texts and these equal numbers is one of `members` (indices, ascending).
struct PathGroup {
  std::vector<uint32_t> members;
  std::vector<bool> varies;
};

// Every path in exactly one group, ordered by the first member; `values[i]` is what path i has. Texts and views into
// them live as long as the paths.
[[nodiscard]] std::vector<PathGroup> group_paths(std::span<const std::string_view> paths,
                                                 std::span<const uint32_t> values);

}  // namespace tpplan
