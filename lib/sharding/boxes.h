// Sets of tensor elements and their offsets in memory: the units in which shards are copied, moved and compared.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sharding/shard_slice.h"

namespace tpplan {

// Global indices of one dim as nonempty intervals, ascending and disjoint.
using Intervals = std::vector<Interval>;

// The elements of a tensor that a rank holds: the product of one set of intervals for each dim. A sharded fused dim has
// several intervals, an empty shard has none; a tensor without dims has one element. The buffer of a region is row
// major over its indices, interval after interval.
using Region = std::vector<Intervals>;

// Returns the result of shard_slice as a region: without empty intervals, adjacent ones joined. The buffer is the same.
[[nodiscard]] Region region_from_slice(std::vector<Intervals> slice);

[[nodiscard]] uint64_t elements_in(const Region& region);
[[nodiscard]] Region intersection(const Region& a, const Region& b);

// A region with one interval [begin, end) in each dim. The caller decides whether the last dim counts elements or
// bytes.
struct Box {
  std::vector<uint64_t> begin, end;
  bool operator==(const Box&) const = default;
};

[[nodiscard]] uint64_t elements_in(const Box& box);
[[nodiscard]] bool is_empty(const Box& box);
[[nodiscard]] Box intersection(const Box& a, const Box& b);  // empty if they are disjoint

// "[0:4, 8:16]"
[[nodiscard]] std::string to_text(const Box& box);

// A box of a tensor and its place in a row-major buffer: the buffer has shape `sizes`, the box begins at index `at`.
struct HeldBox {
  Box box;
  std::vector<uint64_t> at, sizes;
};

// Return the place of a box: in a contiguous buffer of only the box; in the buffer of the full tensor, of shape
// `sizes`; in the buffer of a region that contains the box.
[[nodiscard]] HeldBox packed(const Box& box);
[[nodiscard]] HeldBox within(const Box& box, std::span<const uint64_t> sizes);
[[nodiscard]] HeldBox within(const Box& box, const Region& region);

// Splits a region into boxes, in storage order: one box for each combination of one interval in each dim.
[[nodiscard]] std::vector<HeldBox> boxes_of(const Region& region);

// Returns the stride of dim `dim` - 1 in elements: the product of the buffer's sizes from `dim` on.
[[nodiscard]] uint64_t row_size(const HeldBox& held, size_t dim);

// Returns the offset of a global index in the buffer. @pre the box contains `global`
[[nodiscard]] uint64_t offset_of(const HeldBox& held, std::span<const uint64_t> global);

// A copy of a box between two buffers, as ranges that are contiguous in both: `run` elements for every index into
// `counts` (outermost first, no count is 1). The first range begins at the two offsets.
struct BoxCopy {
  uint64_t run = 0, from_offset = 0, to_offset = 0;
  std::vector<uint64_t> counts, from_strides, to_strides;
};
[[nodiscard]] BoxCopy plan_copy(const HeldBox& from, const HeldBox& to, const Box& box);

// Calls visit(from_offset, to_offset, count) for each contiguous range of the copy, in row-major order. Returns false
// as soon as `visit` does.
template <typename Visit>
bool for_each_contiguous_range(const HeldBox& from, const HeldBox& to, const Box& box, Visit visit) {
  if (is_empty(box)) return true;
  const BoxCopy copy = plan_copy(from, to, box);
  uint64_t at = copy.from_offset, to_at = copy.to_offset;
  for (std::vector<uint64_t> index(copy.counts.size());;) {
    if (!visit(at, to_at, copy.run)) return false;
    size_t d = index.size();
    for (;; --d) {
      if (d == 0) return true;
      at += copy.from_strides[d - 1];
      to_at += copy.to_strides[d - 1];
      if (++index[d - 1] != copy.counts[d - 1]) break;
      at -= copy.from_strides[d - 1] * copy.counts[d - 1];
      to_at -= copy.to_strides[d - 1] * copy.counts[d - 1];
      index[d - 1] = 0;
    }
  }
}

}  // namespace tpplan
