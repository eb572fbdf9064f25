// Mesh axes, parts of them, and interned lists of parts: the shardings of dims.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tpplan::programs {

// A part of a mesh axis, Shardy's "model":(2)4: `before` is the product of the sizes of the parts in front of it. A
// whole axis has before 1 and the size of the axis.
struct AxisPart {
  uint32_t axis = 0;  // index into the axes of the mesh
  int64_t before = 1;
  int64_t size = 1;
  [[nodiscard]] auto operator<=>(const AxisPart&) const = default;
};

[[nodiscard]] inline int64_t part_end(const AxisPart& part) { return part.before * part.size; }
[[nodiscard]] bool overlaps(const AxisPart& a, const AxisPart& b);
// True if every coordinate of `b` is determined by `a`: a range within a range.
[[nodiscard]] bool contains(const AxisPart& a, const AxisPart& b);
[[nodiscard]] bool is_prefix(const AxisPart& a, const AxisPart& b);
// Returns what of `part` is major to `other`: all without an overlap, nullopt if nothing is.
[[nodiscard]] std::optional<AxisPart> prefix_without(const AxisPart& part, const AxisPart& other);

using AxisParts = std::vector<AxisPart>;

[[nodiscard]] bool overlaps(std::span<const AxisPart> parts, const AxisPart& other);
// Appends a part to a list, and joins it with the last one if it continues the same axis.
void append_part(AxisParts& parts, const AxisPart& part);
// True if `a` is a prefix of `b` and differs from it; the last part of `a` may be a prefix of its part of `b`.
[[nodiscard]] bool is_strict_prefix(std::span<const AxisPart> a, std::span<const AxisPart> b);
// Returns the product of the sizes.
[[nodiscard]] int64_t shard_count(std::span<const AxisPart> parts);

// Orders axes as Shardy orders them: by name, then whole axes behind parts. `names` are those of the mesh.
[[nodiscard]] bool is_before(std::span<const std::string> names, std::span<const int64_t> sizes, const AxisPart& a,
                             const AxisPart& b);

// Index into AxisLists. Equal lists have equal ids.
using AxisListId = uint32_t;
inline constexpr AxisListId kNoAxes = 0;  // the empty list

struct AxisLists {
  std::vector<AxisParts> lists{{}};
  std::vector<int64_t> counts{1};  // shards of each list
  std::map<AxisParts, AxisListId> ids;
};

[[nodiscard]] AxisListId intern_axes(AxisLists& lists, const AxisParts& parts);
[[nodiscard]] inline const AxisParts& parts_of(const AxisLists& lists, AxisListId id) { return lists.lists[id]; }
[[nodiscard]] inline int64_t shard_count(const AxisLists& lists, AxisListId id) { return lists.counts[id]; }

}  // namespace tpplan::programs
