// Groups of paths that differ only in numbers: layers.0.wq.weight, layers.1.wq.weight, ...
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/path_patterns.h"

namespace tpplan {

// Paths with the same texts and the same value. Their numbers at `varies` differ, the others are equal. `members`
// (indices, ascending) has every path with these texts and these equal numbers.
struct PathGroup {
  std::vector<uint32_t> members;
  std::vector<bool> varies;
};

// Partitions paths into groups, ordered by their first path. `values[i]` is the value of path i. The views must be
// valid as long as the groups.
[[nodiscard]] std::vector<PathGroup> group_paths(std::span<const std::string_view> paths,
                                                 std::span<const uint32_t> values);

}  // namespace tpplan
