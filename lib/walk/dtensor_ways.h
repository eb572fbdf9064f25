// How torch chooses between the ways to run an operation on DTensors: each way says how the operands and the result are
// placed, and the one whose operands are brought there most cheaply wins (torch 2.13, _sharding_prop.py,
// _select_min_cost_strategy; _collective_utils.py, redistribute_cost). Axis by axis.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/op_rules.h"
#include "sharding/placement.h"

namespace tpplan {

// A DTensor along one axis as an operation sees it: its whole sizes as it claims them, and its placement.
struct Face {
  std::vector<int64_t> shape;
  Placement at;
  double bytes = 8;  // of an element
};

struct Way {
  Placement out;
  std::vector<Placement> ins;
};

// What an operation asks of its ways.
struct WayRules {
  int64_t ranks = 1;
  bool takes_uneven = false;  // a dim with fewer elements than ranks may stay cut, where it is
  bool in_place = false;      // the first operand and the result stay as they are
};

// nullopt where no way is left, which torch answers with an error.
[[nodiscard]] std::optional<Way> choose_way(std::span<const Way> ways, std::span<const Face> faces,
                                            const WayRules& rules);

// By elements, operands broadcast against each other (_pointwise_ops.py). `scalar`: a number takes part.
[[nodiscard]] std::vector<Way> pointwise_ways(std::span<const Face> faces, Linearity linearity, bool scalar);

// One dim of a product, and where it stands in the operands and the result; -1: it does not.
struct ProductDim {
  int a = -1, b = -1, out = -1;
};
// [a, b], or [a, b, bias] where there is a bias that goes along the result's last dim (_matrix_ops.py,
// gen_single_dim_einsum_strategies). Dims in the order batch, summed, a's, b's.
[[nodiscard]] std::vector<Way> product_ways(std::span<const Face> faces, std::span<const ProductDim> dims, bool bias);

// Every one of `whole` operands whole.
[[nodiscard]] Way whole_way(size_t operands);

}  // namespace tpplan
