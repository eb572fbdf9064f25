// Products of DTensors as torch runs them: operands and result are viewed as matrices, or as stacks of them.
#pragma once

#include <span>
#include <vector>

#include "walk/dtensor_ways.h"

namespace tpplan {

// Each operand as the product sees it, and the result; the dims of these.
struct Folds {
  std::vector<std::vector<int64_t>> operands;
  std::vector<int64_t> out;
  std::vector<ProductDim> dims;
  bool bias = false;
};

// `shapes`: of [x, weight] or [x, weight, bias]; `out` of the result. As they are claimed.
[[nodiscard]] Folds linear_folds(std::span<const std::vector<int64_t>> shapes, std::span<const int64_t> out);
// Of two operands; one of them may be a vector, or both.
[[nodiscard]] Folds matmul_folds(std::span<const std::vector<int64_t>> shapes, std::span<const int64_t> out);
// Behind the view of `from` as `to`, or its reverse; whole where torch has none.
[[nodiscard]] Placement folded_placement(const Placement& at, std::span<const int64_t> from,
                                         std::span<const int64_t> to, int64_t ranks);

}  // namespace tpplan
