// Operations by notation (notation.h): what ranks hold of a result follows from what met at each factor.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_call.h"

namespace tpplan {

// Products are linear in each operand, which decides all of it:
// - a factor that the result keeps has the map that its operands share; unlike pieces are wrong (join in op_call.h);
// - summed over a factor that is cut, each rank has the sum over its own piece: a term of a sum that is still open, if
//   the pieces make up the whole. No other dim of the result may be cut along the same axes: terms of one element would
//   be missing;
// - of an open sum times what is complete each rank has a term; of two open sums it has no term of the product;
// - what is added must be open exactly where the product is: n ranks would add a complete bias n times.
// `text` is a notation; where it is none the result stays unknown.
void apply_factors(OpCall& call, OpResult& result, std::string_view text, std::vector<Operand> operands);

}  // namespace tpplan
