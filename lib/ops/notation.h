// Operations whose dims are factors, as text: products of tensors, summed over what the result lacks (einsum's idea,
// with more that an operation can ask for). Tables here and the model file's own rules (OpGraph::rules) are written in
// it.
//
// "b.. k, o k | o -> b.. o": operands by their dims; what is multiplied stands between commas, what is added behind
// bars. A factor that the result lacks is summed over. What stands behind semicolons:
//   whole f g   factors that must not be cut
//   index n     operand n holds indices, which must be complete
//   divides n   operand n is what the others are divided by
//   norm n      argument n says how many dims the second `..` factor of an operand has
//   bends       not linear in the operands, and neither is what has `norm`
//   some        raises an error where a rank holds nothing of a dim
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/op_call.h"

namespace tpplan {

// One or several dims of an operand, or of the result.
struct DimToken {
  std::string_view factor;
  bool is_many = false;  // `f..`: as many dims as the others leave, aligned at the end where operands have several
  bool is_one = false;   // `1`: a dim of that size, which meets nothing
  bool is_new = false;   // `f+` in the result: a dim of another size than f, as recorded
};

using DimTokens = std::vector<DimToken>;

struct Notation {
  std::vector<std::vector<DimTokens>> addends;  // [addend][operand]
  DimTokens out;
  std::vector<std::string_view> whole;
  int64_t index = -1;
  int64_t divides = -1;
  int64_t norm = -1;
  bool bends = false;
  bool some = false;
};

// False where the text is none. The notation points into it.
[[nodiscard]] bool parse_notation(std::string_view text, Notation& notation);
[[nodiscard]] bool is_notation(std::string_view text);

// True when operands have as many dims as it says. Operands at the end may be left out (a bias).
[[nodiscard]] bool fits(const Notation& notation, std::span<const Operand> operands);

// Row `index` of those that an op has; empty behind the last.
[[nodiscard]] std::string_view find_notation(std::string_view name, size_t index);
void add_notation_names(std::vector<std::string_view>& names);

}  // namespace tpplan
