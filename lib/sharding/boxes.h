// Sets of elements of a tensor and where they stand in memory: all that copies, moves or compares pieces of tensors
// counts in these.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sharding/shard_slice.h"

namespace tpplan {

// Global indices of one dim: ascending and apart, none of them empty.
using Runs = std::vector<Interval>;

// What a rank holds of a tensor: of each dim one run, none, or several where a fused dim is cut; every choice of an
// index a dim is an element. A tensor without dims has one element. A block that holds a region is row major over its
// runs, one after the other.
using Region = std::vector<Runs>;

// What shard_slice says as a region: empty runs left out, runs that touch made one. The block is the same.
[[nodiscard]] Region region_of_slice(std::vector<Runs> slice);

[[nodiscard]] uint64_t elements_in(const Region& region);
[[nodiscard]] Region intersection(const Region& a, const Region& b);

// A region of one run a dim: [begin, end) of each. What it counts in, elements or bytes of the last dim, its user says.
struct Box {
  std::vector<uint64_t> begin, end;
  bool operator==(const Box&) const = default;
};

[[nodiscard]] uint64_t elements_in(const Box& box);
[[nodiscard]] bool is_empty(const Box& box);
[[nodiscard]] Box intersection(const Box& a, const Box& b);  // empty where they do not meet

// "[0:4, 8:16]"
[[nodiscard]] std::string to_text(const Box& box);

// A box of a tensor as it stands in a row-major block of `sizes`, which it begins in at `at`.
struct HeldBox {
  Box box;
  std::vector<uint64_t> at, sizes;
};

// A box as a block of its own, without gaps; as a part of the whole tensor; as it stands in the block of a region that
// it lies in.
[[nodiscard]] HeldBox packed(const Box& box);
[[nodiscard]] HeldBox within(const Box& box, std::span<const uint64_t> sizes);
[[nodiscard]] HeldBox within(const Box& box, const Region& region);

// A region as boxes in its block, in storage order: one, or one for each choice of a run a dim.
[[nodiscard]] std::vector<HeldBox> boxes_of(const Region& region);

// Elements of one index of dim `dim` - 1: the product of the block's sizes from `dim` on.
[[nodiscard]] uint64_t row_size(const HeldBox& held, size_t dim);

// Where global index `global`, which lies in the box, stands in the block.
[[nodiscard]] uint64_t offset_of(const HeldBox& held, std::span<const uint64_t> global);

// A box that two blocks hold as runs that are contiguous in both: `run` elements for every index of `counts` (outermost
// first, none of them 1), the first of them at the offsets.
struct BoxCopy {
  uint64_t run = 0, from_offset = 0, to_offset = 0;
  std::vector<uint64_t> counts, from_strides, to_strides;
};
[[nodiscard]] BoxCopy plan_copy(const HeldBox& from, const HeldBox& to, const Box& box);

// Calls visit(from_offset, to_offset, count) for each such run, in row-major order. Stops when visit returns false, and
// then returns false.
template <typename Visit>
bool for_each_run(const HeldBox& from, const HeldBox& to, const Box& box, Visit visit) {
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
