#include "base/path_patterns.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <set>

#include "base/keyed_hash.h"
#include "base/text.h"

namespace tpplan {
namespace {

// Ranges shown in one pair of braces.
constexpr size_t kMaxRanges = 8;

// Longer paths, which no model file can have, are not split.
constexpr size_t kMaxSplitPath = 4096;

struct Family {
  NumberedPath first;
  uint64_t count = 0;
  std::vector<std::set<std::string_view>> numbers;  // by position
};

// Returns "0..31, 40". Texts that are no plain decimal number are listed as they are.
std::string ranges_text(const std::set<std::string_view>& texts) {
  std::vector<int64_t> numbers;
  std::vector<std::string> parts;
  for (const std::string_view text : texts) {
    int64_t number = 0;
    if (parse_decimal(text, number))
      numbers.push_back(number);
    else
      parts.emplace_back(text);
  }
  std::sort(numbers.begin(), numbers.end());
  std::vector<std::string> ranges;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
    ranges.push_back(end == i ? fmt::format("{}", numbers[i]) : fmt::format("{}..{}", numbers[i], numbers[end]));
    i = end + 1;
  }
  ranges.insert(ranges.end(), parts.begin(), parts.end());
  const size_t more = ranges.size() > kMaxRanges ? ranges.size() - kMaxRanges : 0;
  ranges.resize(ranges.size() - more);
  return more == 0 ? join(ranges, ", ") : fmt::format("{} and {} more", join(ranges, ", "), counted(more, "range"));
}

PathPattern pattern_of(const Family& family) {
  PathPattern pattern{.text = std::string(family.first.texts[0]), .count = family.count, .combinations = 1};
  for (size_t i = 0; i < family.numbers.size(); ++i) {
    const std::set<std::string_view>& numbers = family.numbers[i];
    pattern.text += numbers.size() == 1 ? std::string(*numbers.begin()) : fmt::format("{{{}}}", ranges_text(numbers));
    pattern.text += family.first.texts[i + 1];
    if (__builtin_mul_overflow(pattern.combinations, numbers.size(), &pattern.combinations))
      pattern.combinations = ~uint64_t{0};
  }
  return pattern;
}

}  // namespace

NumberedPath split_numbers(std::string_view path) {
  static constexpr std::string_view digits = "0123456789";
  NumberedPath split;
  for (;;) {
    const size_t begin = std::min(path.find_first_of(digits), path.size());
    split.texts.push_back(path.substr(0, begin));
    path.remove_prefix(begin);
    if (path.empty()) return split;
    const size_t end = std::min(path.find_first_not_of(digits), path.size());
    split.numbers.push_back(path.substr(0, end));
    path.remove_prefix(end);
  }
}

// Finds groups by a hash of their texts, in one pass.
std::vector<PathPattern> path_patterns(std::span<const std::string_view> paths) {
  TextMap<std::string, size_t> known;
  std::vector<Family> families;
  for (const std::string_view path : paths) {
    const bool is_long = path.size() > kMaxSplitPath;
    const NumberedPath split = is_long ? NumberedPath{.texts = {path}, .numbers = {}} : split_numbers(path);
    std::string key(is_long ? "1" : "");
    for (const std::string_view text : split.texts) {
      // Texts have no digits, so a digit separates them.
      key += text;
      key += '0';
    }
    const auto [entry, is_new] = known.emplace(std::move(key), families.size());
    if (is_new)
      families.push_back(
          {.first = split, .count = 0, .numbers = std::vector<std::set<std::string_view>>(split.numbers.size())});
    Family& family = families[entry->second];
    ++family.count;
    for (size_t i = 0; i < split.numbers.size(); ++i) family.numbers[i].insert(split.numbers[i]);
  }
  std::vector<PathPattern> patterns;
  for (const Family& family : families) patterns.push_back(pattern_of(family));
  return patterns;
}

std::string ranged_path(std::span<const std::string_view> paths) { return path_patterns(paths)[0].text; }

}  // namespace tpplan
