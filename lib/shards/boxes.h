// Tensors as boxes of bytes: what stands where, in memory and in files. All that moves weights counts in these.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "manifest/manifest.h"
#include "sharding/shard_slice.h"

namespace tpplan {

// The sizes of a tensor, the last of them in bytes (a scalar is one dim), so that types of any width move alike. Throws
// std::runtime_error where a row of a type below eight bits does not fill whole bytes.
std::vector<uint64_t> byte_sizes(std::span<const int64_t> shape, DType dtype);

// Half-open runs of global indices, one a dim of byte_sizes.
struct Box {
  std::vector<uint64_t> begin, end;
  bool operator==(const Box&) const = default;
};

uint64_t bytes_in(const Box& box);
bool is_empty(const Box& box);
Box intersect(const Box& a, const Box& b);  // empty where they do not meet

// A box of a tensor as it stands in a row-major block of `sizes`, which begins there at `at`.
struct HeldBox {
  Box box;
  std::vector<uint64_t> at, sizes;
};

// Bytes of one index of dim `dim` - 1: the product of the block's sizes from `dim` on.
uint64_t row_bytes(const HeldBox& held, size_t dim);

// A box as a block of its own, without gaps; and as a part of the whole tensor.
HeldBox packed(const Box& box);
HeldBox within(const Box& box, std::span<const uint64_t> sizes);

// Where global index `global`, which lies in the box, stands: bytes from the start of the block.
uint64_t offset_of(const HeldBox& held, std::span<const uint64_t> global);

// The boxes that a rank holds: one, or one for each run of its fused dims; in storage order, empty ones left out.
// `slice` is what shard_slice says. Throws as byte_sizes where a cut goes through a byte.
std::vector<HeldBox> held_boxes(std::span<const int64_t> shape, DType dtype,
                                const std::vector<std::vector<Interval>>& slice);

// True for the one rank, of all that hold the same elements, that writes them: coordinate 0 on every axis that does not
// cut.
bool is_first_holder(const ParamLayout& layout, const Mesh& mesh, std::span<const int64_t> coordinate);

// Says why boxes do not fill a tensor of these sizes with every byte in exactly one of them; empty when they do.
std::string tiling_fault(std::span<const uint64_t> sizes, std::span<const Box> boxes);

// Calls visit(from_offset, to_offset, bytes) for each run of `box`, which lies in both blocks, that is contiguous in
// both; in row-major order. Stops when visit returns false, and then returns false.
template <typename Visit>
bool for_each_run(const HeldBox& from, const HeldBox& to, const Box& box, Visit visit) {
  if (is_empty(box)) return true;
  size_t inner = box.begin.size() - 1;  // the runs' first dim: those behind it are whole in both
  uint64_t run = box.end[inner] - box.begin[inner];
  while (inner > 0 && run == row_bytes(from, inner) && run == row_bytes(to, inner)) {
    --inner;
    run *= box.end[inner] - box.begin[inner];
  }
  for (std::vector<uint64_t> index = box.begin;;) {
    if (!visit(offset_of(from, index), offset_of(to, index), run)) return false;
    size_t d = inner;
    while (d > 0 && ++index[d - 1] == box.end[d - 1]) {
      --d;
      index[d] = box.begin[d];
    }
    if (d == 0) return true;
  }
}

// "[0:4, 8:16]"
std::string to_text(const Box& box);

}  // namespace tpplan
