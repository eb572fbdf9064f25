// Matmuls of DTensors as torch runs them: operands and result are viewed as matrices, or as batches of matrices.
#pragma once

#include <span>
#include <vector>

#include "walk/dtensor/dtensor_strategies.h"

namespace tpplan {

// The shapes of the operands and of the result after these views, and the dims of the matmul.
struct MatmulViews {
  std::vector<std::vector<int64_t>> operands;
  std::vector<int64_t> out;
  std::vector<MatmulDim> dims;
  bool bias = false;
};

// Returns the views of a linear. `shapes`: of [x, weight] or [x, weight, bias]; `out`: of the result; all as declared.
[[nodiscard]] MatmulViews linear_views(std::span<const std::vector<int64_t>> shapes, std::span<const int64_t> out);
// Returns the views of a matmul of two operands, each of which can be a vector.
[[nodiscard]] MatmulViews matmul_views(std::span<const std::vector<int64_t>> shapes, std::span<const int64_t> out);
// Returns the placement after a view of `from` as `to`; replicated if torch raises an error for it.
[[nodiscard]] Placement placement_of_view(const Placement& at, std::span<const int64_t> from,
                                          std::span<const int64_t> to, int64_t ranks);

}  // namespace tpplan
