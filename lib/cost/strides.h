// How tensors lie in memory, as torch lays them out: what is a view of what, and what has to be copied.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tpplan {

using Strides = std::vector<int64_t>;

// Without gaps, the last dim first.
[[nodiscard]] Strides dense_strides(std::span<const int64_t> shape);
[[nodiscard]] bool is_dense(std::span<const int64_t> shape, std::span<const int64_t> strides);

// Of a view with another shape; nothing where only a copy has it (at::detail::computeStride, torch 2.13).
[[nodiscard]] std::optional<Strides> view_strides(std::span<const int64_t> from, std::span<const int64_t> strides,
                                                  std::span<const int64_t> to);

// Of a view in which dims of size 1 are repeated and new ones stand in front.
[[nodiscard]] Strides expanded_strides(std::span<const int64_t> from, std::span<const int64_t> strides,
                                       std::span<const int64_t> to);

struct Laid {
  std::span<const int64_t> shape, strides;
};

// Of the result of an operation on elements: dense, its dims in the order in which those of the operands lie
// (TensorIteratorBase::reorder_dimensions).
[[nodiscard]] Strides elementwise_strides(std::span<const Laid> operands, std::span<const int64_t> out);

}  // namespace tpplan
