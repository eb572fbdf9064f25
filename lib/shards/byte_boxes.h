// Tensors as boxes of bytes (sharding/boxes.h): the last dim counts in bytes, so that types of any width move alike.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "manifest/manifest.h"
#include "sharding/boxes.h"

namespace tpplan {

// The sizes of a tensor, the last of them in bytes (a scalar is one dim). Throws where a row of a type below eight bits
// does not fill whole bytes.
[[nodiscard]] std::vector<uint64_t> byte_sizes(std::span<const int64_t> shape, DType dtype);

// The boxes of bytes that a rank holds, as boxes_of has them. `slice` is what shard_slice says. Throws as byte_sizes
// where a cut goes through a byte.
[[nodiscard]] std::vector<HeldBox> held_boxes(std::span<const int64_t> shape, DType dtype,
                                              const std::vector<Runs>& slice);

// True for the one rank, of all that hold the same elements, that writes them: coordinate 0 on every axis that does not
// cut.
[[nodiscard]] bool is_first_holder(const ParamLayout& layout, const Mesh& mesh, std::span<const int64_t> coordinate);

// Says why boxes do not fill a tensor of these sizes with every byte in exactly one of them; empty when they do.
[[nodiscard]] std::string tiling_fault(std::span<const uint64_t> sizes, std::span<const Box> boxes);

}  // namespace tpplan
