// Tensors as boxes of bytes (sharding/boxes.h): the last dim counts bytes, so that copies do not depend on the dtype.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "manifest/manifest.h"
#include "sharding/boxes.h"

namespace tpplan {

// Returns the sizes of a tensor, the last one in bytes (a scalar has one dim). Throws if the rows of a dtype below
// eight bits do not fill whole bytes.
[[nodiscard]] std::vector<uint64_t> byte_sizes(std::span<const int64_t> shape, DType dtype);

// Returns the boxes of bytes that a rank holds, in the order of boxes_of. `slice` is the result of shard_slice. Throws
// if a shard boundary is inside a byte.
[[nodiscard]] std::vector<HeldBox> held_boxes(std::span<const int64_t> shape, DType dtype,
                                              const std::vector<Intervals>& slice);

// True for the rank that writes the elements, among those that replicate them: coordinate 0 on every axis that does not
// shard the tensor.
[[nodiscard]] bool is_writing_rank(const ParamLayout& layout, const Mesh& mesh, std::span<const int64_t> coordinate);

// Describes why the boxes do not cover every byte of a tensor of these sizes exactly once; empty if they do.
[[nodiscard]] std::string tiling_error(std::span<const uint64_t> sizes, std::span<const Box> boxes);

}  // namespace tpplan
