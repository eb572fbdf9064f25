// Long lists of paths in few words: `layers.{0..31}.wq.weight`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

// A path in pieces: `texts` between the runs of decimal digits, which are as long as they can be; one text more than
// numbers.
struct NumberedPath {
  std::vector<std::string_view> texts;
  std::vector<std::string_view> numbers;
};
[[nodiscard]] NumberedPath split_numbers(std::string_view path);

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

// The one pattern of paths that differ in numbers only; of one path itself.
// @pre there is one.
[[nodiscard]] std::string ranged_path(std::span<const std::string_view> paths);

}  // namespace tpplan
