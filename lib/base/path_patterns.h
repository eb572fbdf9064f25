// Short forms of long lists of paths: `layers.{0..31}.wq.weight`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// A path split at its maximal sequences of decimal digits; there is one text more than numbers.
struct NumberedPath {
  std::vector<std::string_view> texts;
  std::vector<std::string_view> numbers;
};
[[nodiscard]] NumberedPath split_numbers(std::string_view path);

// A group of `count` paths that differ only in numbers. `text` has the differing numbers in braces as ranges, only the
// first few if they are many. `combinations` is the number of paths that the braces describe: more than `count` if some
// do not exist.
struct PathPattern {
  std::string text;
  uint64_t count = 0;
  uint64_t combinations = 0;
};

// Groups paths into patterns, ordered by the first path of each.
[[nodiscard]] std::vector<PathPattern> path_patterns(std::span<const std::string_view> paths);

// Returns the pattern of paths that differ only in numbers.
// @pre at least one path
[[nodiscard]] std::string ranged_path(std::span<const std::string_view> paths);

}  // namespace tpplan
