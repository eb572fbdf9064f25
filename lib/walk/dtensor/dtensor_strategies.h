// Torch's choice of a strategy for an operation on DTensors. A strategy specifies the placements of the operands and of
// the result. Torch chooses the one with the cheapest redistribution of the operands, for each mesh axis separately
// (torch 2.13, _sharding_prop.py, _select_min_cost_strategy; _collective_utils.py, redistribute_cost).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/op_rules.h"
#include "sharding/placement.h"

namespace tpplan {

// A DTensor operand along one axis: its declared global shape and its placement.
struct OperandSpec {
  std::vector<int64_t> shape;
  Placement at;
  double bytes = 8;  // of an element
};

struct Strategy {
  Placement out;
  std::vector<Placement> ins;
};

// Constraints on the strategies of an operation.
struct StrategyRules {
  int64_t ranks = 1;
  bool takes_uneven = false;  // a dim with fewer elements than ranks can stay sharded
  bool in_place = false;      // the first operand and the result must keep its placement
};

// Returns the best strategy: one that fits without a redistribution, then one whose redistribution is free, then the
// cheapest. Returns nullopt if none is possible, in which case torch raises an error.
[[nodiscard]] std::optional<Strategy> choose_strategy(std::span<const Strategy> strategies,
                                                      std::span<const OperandSpec> specs, const StrategyRules& rules);

// Returns the strategies of an elementwise operation with broadcasting (_pointwise_ops.py). `scalar`: an operand is a
// number.
[[nodiscard]] std::vector<Strategy> pointwise_strategies(std::span<const OperandSpec> specs, Linearity linearity,
                                                         bool scalar);

// One dim of a matmul: its index in the operands and in the result; -1 if it is not there.
struct MatmulDim {
  int a = -1, b = -1, out = -1;
};
// Returns the strategies of a matmul of [a, b], or of [a, b, bias] with a bias along the last dim of the result
// (_matrix_ops.py, gen_single_dim_einsum_strategies). `dims` are in the order batch, summed, a's, b's.
[[nodiscard]] std::vector<Strategy> matmul_strategies(std::span<const OperandSpec> specs,
                                                      std::span<const MatmulDim> dims, bool bias);

// Returns the strategy with replicated operands and a replicated result.
[[nodiscard]] Strategy replicated_strategy(size_t operands);

}  // namespace tpplan
