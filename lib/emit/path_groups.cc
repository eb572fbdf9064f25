#include "emit/path_groups.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/keyed_hash.h"

namespace tpplan {
namespace {

struct Grouping {
  std::vector<NumberedPath> paths;
  std::span<const uint32_t> values;
  std::vector<PathGroup> groups;
};

// Measures how well the number at one position distinguishes the values of paths with equal texts.
struct Position {
  size_t index = 0;
  size_t numbers = 0;  // different numbers
  size_t mixed = 0;    // numbers whose paths have different values
};

Position look_at(const Grouping& in, const std::vector<uint32_t>& members, size_t index) {
  constexpr uint32_t kMixed = 0xffffffffu;
  TextMap<std::string_view, uint32_t> value_of;
  for (const uint32_t i : members) {
    const auto [known, is_new] = value_of.emplace(in.paths[i].numbers[index], in.values[i]);
    if (!is_new && known->second != in.values[i]) known->second = kMixed;
  }
  Position position{.index = index, .numbers = value_of.size()};
  for (const auto& [number, value] : value_of) position.mixed += value == kMixed;
  return position;
}

// Makes one group of paths with equal texts, or splits them by the number that determines their values best. Each part
// has all paths with its texts and fixed numbers, so that the pattern of a group matches no other path. The depth is at
// most the count of numbers in a path, because each step fixes one.
void group_paths_by_text(Grouping& in, const std::vector<uint32_t>& members) {
  const size_t count = in.paths[members[0]].numbers.size();
  std::vector<Position> positions;
  for (size_t k = 0; k < count; ++k) positions.push_back(look_at(in, members, k));
  const uint32_t value = in.values[members[0]];
  if (std::all_of(members.begin(), members.end(), [&](uint32_t i) { return in.values[i] == value; })) {
    PathGroup& group = in.groups.emplace_back();
    group.members = members;
    for (const Position& position : positions) group.varies.push_back(position.numbers > 1);
    return;
  }
  // The position with the fewest mixed numbers, and among these the fewest parts. Paths with equal texts differ in some
  // number, so every part is smaller.
  const Position best = *std::min_element(positions.begin(), positions.end(), [](const Position& a, const Position& b) {
    return std::tuple(a.numbers == 1, a.mixed, a.numbers) < std::tuple(b.numbers == 1, b.mixed, b.numbers);
  });
  std::map<std::string_view, std::vector<uint32_t>> parts;
  for (const uint32_t i : members) parts[in.paths[i].numbers[best.index]].push_back(i);
  for (const auto& [number, part] : parts) group_paths_by_text(in, part);
}

}  // namespace

// The hash map has no order. Groups are disjoint, so sorting by the first path determines the order.
std::vector<PathGroup> group_paths(std::span<const std::string_view> paths, std::span<const uint32_t> values) {
  Grouping in{.paths = {}, .values = values, .groups = {}};
  TextMap<std::string, std::vector<uint32_t>> same_texts;
  for (uint32_t i = 0; i < paths.size(); ++i) {
    in.paths.push_back(split_numbers(paths[i]));
    std::string key;
    for (const std::string_view text : in.paths[i].texts) key.append(text).push_back('0');
    same_texts[key].push_back(i);
  }
  for (const auto& [key, members] : same_texts) group_paths_by_text(in, members);
  std::sort(in.groups.begin(), in.groups.end(),
            [](const PathGroup& a, const PathGroup& b) { return a.members[0] < b.members[0]; });
  return std::move(in.groups);
}

}  // namespace tpplan
