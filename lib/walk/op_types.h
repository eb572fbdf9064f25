// What types an operation's results have where an operand has another one than was recorded: a boundary casts what it
// sends (forward_dtype), and the code goes on with it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "walk/walk_state.h"

namespace tpplan {

struct OpTypes {
  std::vector<std::string_view> outs;  // by result; empty: all as recorded
  RuleId rule = kNoRule;               // that gave an operand its type
  std::string crash;                   // why torch refuses it; empty: it does not
};

// As torch 2.13 has it: products take operands of one type; operations by elements and `cat` give the wider one of
// operands with dims, or of all where none has any (c10/core/ScalarType.cpp, promoteTypes); a cast gives the type that
// it names; everything else keeps its operand's. A cast back to a type that the module's inputs were recorded in
// (`x.to(input_dtype)`) gives the type that they have now: the recording says types, not where code got them from.
// `ins`: the operands' slots, in the order of the node's values. autocast is not known of.
[[nodiscard]] OpTypes op_types(const Walk& walk, const GraphNode& node, bool is_write, std::span<const TapeSlot> ins);

// What of these, which a module is given, has another type than was recorded.
[[nodiscard]] std::vector<Retyped> retyped_of(const Walk& walk, std::span<const SlotId> given);

}  // namespace tpplan
