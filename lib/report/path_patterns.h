// Long lists of paths in few words: `layers.{0..31}.wq.weight`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// Paths that differ in numbers only. `text` has the numbers at each differing place in braces: ranges, and the first
// few of them where they are many. `combinations` is what the braces could stand for; more than `count` where some are
// not there.
struct PathPattern {
  std::string text;
  uint64_t count = 0;
  uint64_t combinations = 0;
};

// Every path in exactly one pattern, ordered by the first path of each.
[[nodiscard]] std::vector<PathPattern> path_patterns(std::span<const std::string_view> paths);

}  // namespace tpplan
