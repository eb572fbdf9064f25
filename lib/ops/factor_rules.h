// Operations described by notation (notation.h): the layout of a result follows from the layouts of each factor.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_call.h"

namespace tpplan {

// Products are linear in each operand, which determines the result:
// - a factor of the result has the layout that its operands share; different shards are wrong (join in op_call.h);
// - summed over a sharded factor, the result is partial, if the shards make up the dim. No other dim of the result can
// be
//   sharded along the same axes, because terms of its elements would be missing;
// - a partial value times a complete one is partial; the product of two partial values is wrong;
// - an addend must be partial over the same axes as the product: n ranks would add a complete bias n times.
// If `text` is not a notation the result is unknown.
void apply_factors(OpCall& call, OpResult& result, std::string_view text, std::vector<Operand> operands);

void rule_factors(OpCall& call, OpResult& result);
void rule_matmul(OpCall& call, OpResult& result);
void rule_einsum(OpCall& call, OpResult& result);

}  // namespace tpplan
