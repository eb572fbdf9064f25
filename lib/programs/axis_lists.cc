#include "programs/axis_lists.h"

#include <algorithm>

namespace tpplan::programs {

bool overlaps(const AxisPart& a, const AxisPart& b) {
  return a.axis == b.axis && a.before < part_end(b) && b.before < part_end(a);
}

bool contains(const AxisPart& a, const AxisPart& b) {
  return a.axis == b.axis && a.before <= b.before && part_end(b) <= part_end(a);
}

bool is_prefix(const AxisPart& a, const AxisPart& b) { return contains(b, a) && a.before == b.before; }

std::optional<AxisPart> prefix_without(const AxisPart& part, const AxisPart& other) {
  if (!overlaps(part, other)) return part;
  // Parts of sizes 2 and 3 of an axis of 6 have no common refinement.
  if (part.before >= other.before || other.before % part.before != 0) return std::nullopt;
  return AxisPart{part.axis, part.before, other.before / part.before};
}

bool overlaps(std::span<const AxisPart> parts, const AxisPart& other) {
  return std::ranges::any_of(parts, [&other](const AxisPart& part) { return overlaps(part, other); });
}

void append_part(AxisParts& parts, const AxisPart& part) {
  if (!parts.empty() && parts.back().axis == part.axis && part_end(parts.back()) == part.before)
    parts.back().size *= part.size;
  else
    parts.push_back(part);
}

bool is_strict_prefix(std::span<const AxisPart> a, std::span<const AxisPart> b) {
  if (a.empty()) return !b.empty();
  if (a.size() > b.size()) return false;
  if (!std::equal(a.begin(), a.end() - 1, b.begin())) return false;
  const AxisPart& last = b[a.size() - 1];
  return is_prefix(a.back(), last) && (a.size() < b.size() || a.back() != last);
}

int64_t shard_count(std::span<const AxisPart> parts) {
  int64_t count = 1;
  for (const AxisPart& part : parts) count *= part.size;
  return count;
}

bool is_before(std::span<const std::string> names, std::span<const int64_t> sizes, const AxisPart& a,
               const AxisPart& b) {
  if (a.axis != b.axis) return names[a.axis] < names[b.axis];
  const bool a_is_whole = a.size == sizes[a.axis], b_is_whole = b.size == sizes[b.axis];
  if (a_is_whole || b_is_whole) return !a_is_whole && b_is_whole;
  return a.before != b.before ? a.before < b.before : a.size < b.size;
}

AxisListId intern_axes(AxisLists& lists, const AxisParts& parts) {
  if (parts.empty()) return kNoAxes;
  const auto [found, is_new] = lists.ids.try_emplace(parts, static_cast<AxisListId>(lists.lists.size()));
  if (is_new) {
    lists.lists.push_back(parts);
    lists.counts.push_back(shard_count(parts));
  }
  return found->second;
}

}  // namespace tpplan::programs
