// The notation of operations, an extension of einsum: dims are factors, and factors that the result lacks are summed
// over. model/operations.def and the rules in a model file (OpGraph::rules) use it.
//
// "b.. k, o k | o -> b.. o": the dims of each operand; commas separate operands that are multiplied, bars those that
// are added. Properties after semicolons:
//   whole f g   factors that must not be sharded
//   index n     operand n holds indices, which must be complete
//   divides n   operand n is the divisor of the others
//   norm n      argument n is the number of dims of the second `..` factor of an operand
//   bends       not linear in the operands; `norm` implies it
//   some        raises an error if a rank's local size of a dim is 0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/op_call.h"

namespace tpplan {

// A token for one or several dims of an operand or of the result.
struct DimToken {
  std::string_view factor;
  bool is_many = false;  // `f..`: all dims that no other token covers, aligned at the end
  bool is_one = false;   // `1`: a dim of size 1
  bool is_new = false;   // `f+` in the result: a dim of another size than f, as traced
};

using DimTokens = std::vector<DimToken>;

struct Notation {
  std::vector<std::vector<DimTokens>> addends;  // [addend][operand]
  DimTokens out;
  std::vector<std::string_view> replicated;
  int64_t index = -1;
  int64_t divides = -1;
  int64_t norm = -1;
  bool bends = false;
  bool some = false;
};

// Parses the text, to which the notation keeps references. Returns false if it is not a notation.
[[nodiscard]] bool parse_notation(std::string_view text, Notation& notation);
[[nodiscard]] bool is_notation(std::string_view text);

// True if the operands have the number of dims in the notation. The last operands can be omitted (a bias).
[[nodiscard]] bool fits(const Notation& notation, std::span<const Operand> operands);

}  // namespace tpplan
