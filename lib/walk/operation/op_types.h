// The dtypes of an operation's results if an operand's dtype differs from the traced one. A boundary can cast values
// that it sends (forward_dtype), and the code computes with the new dtype.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "walk/state/walk_state.h"

namespace tpplan {

struct OpTypes {
  std::vector<std::string_view> outs;  // by result; empty: all as traced
  RuleId rule = kNoRule;               // the rule that cast an operand
  std::string crash;                   // why torch rejects the dtypes; empty: it accepts them
};

// Returns the dtypes as in torch 2.13:
//
// - matmuls and the like require operands of one dtype
// - elementwise operations and `cat` return the widest dtype of the operands with dims, or of all if none has dims
//   (c10/core/ScalarType.cpp, promoteTypes)
// - a cast returns the dtype that it names
// - every other operation returns the dtype of its operand
//
// A cast to the traced dtype of a module input (`x.to(input_dtype)`) returns the actual dtype of that input, because a
// trace has the dtype only and not its source. `ins`: the slots of the operands, in the order of the node's values.
// autocast is not supported.
[[nodiscard]] OpTypes op_types(const Walk& walk, const GraphNode& node, bool is_write, std::span<const TapeSlot> ins);

// Returns the arguments of a module whose dtype differs from the traced one.
[[nodiscard]] std::vector<RetypedValue> retyped_of(const Walk& walk, std::span<const SlotId> given);

}  // namespace tpplan
