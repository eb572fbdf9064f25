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

// Where global index `global`, which lies in the box, stands: bytes from the start of the block.
uint64_t offset_of(const HeldBox& held, std::span<const uint64_t> global);

// The boxes that a rank holds: one, or one for each run of its fused dims; in storage order, empty ones left out. `slice`
// is what shard_slice says. Throws as byte_sizes where a cut goes through a byte.
std::vector<HeldBox> held_boxes(std::span<const int64_t> shape, DType dtype, const std::vector<std::vector<Interval>>& slice);

// True for the one rank, of all that hold the same elements, that writes them: coordinate 0 on every axis that does not cut.
bool is_first_holder(const ParamLayout& layout, const Mesh& mesh, std::span<const int64_t> coordinate);

// Says why boxes do not fill a tensor of these sizes with every byte in exactly one of them; empty when they do.
std::string tiling_fault(std::span<const uint64_t> sizes, std::span<const Box> boxes);

// "[0:4, 8:16]"
std::string to_text(const Box& box);

}  // namespace tpplan
