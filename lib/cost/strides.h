// Strides of tensors as torch computes them, which decide whether an operation returns a view or a copy.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tpplan {

using Strides = std::vector<int64_t>;

// Strides of a contiguous row-major tensor.
[[nodiscard]] Strides dense_strides(std::span<const int64_t> shape);
[[nodiscard]] bool is_dense(std::span<const int64_t> shape, std::span<const int64_t> strides);

// Returns the strides of a view with another shape; nullopt if it needs a copy (at::detail::computeStride, torch 2.13).
[[nodiscard]] std::optional<Strides> view_strides(std::span<const int64_t> from, std::span<const int64_t> strides,
                                                  std::span<const int64_t> to);

// Returns the strides of an expanded view.
[[nodiscard]] Strides expanded_strides(std::span<const int64_t> from, std::span<const int64_t> strides,
                                       std::span<const int64_t> to);

struct StridedShape {
  std::span<const int64_t> shape, strides;
};

// Returns the strides of an elementwise result: dense, with the dim order of the operands
// (TensorIteratorBase::reorder_dimensions, torch 2.13).
[[nodiscard]] Strides elementwise_strides(std::span<const StridedShape> operands, std::span<const int64_t> out);

}  // namespace tpplan
