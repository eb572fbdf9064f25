// What goes wrong, in numbers: the operation with two ranks and pieces of one element, beside what belongs there.
#pragma once

#include <string>

#include "walk/walk_state.h"

namespace tpplan {

// A table of lines: what each of two ranks has and makes of it, and the whole model. The operation is carried out on
// what they hold, as its operands' layouts say: empty where its arithmetic is not known here, or where the numbers do
// not show what was found (`crashes`: that there is no result; else that it is another one).
[[nodiscard]] std::string operation_example(const Walk& walk, const GraphNode& node, bool crashes);

// The same of a value that leaves the model as this layout has it.
[[nodiscard]] std::string result_example(const Walk& walk, const Spread& layout);

// Of what is done to a value or to a gradient by itself: TP5109, TP5111 and TP5112; empty for other codes.
[[nodiscard]] std::string sum_example(Code code);

}  // namespace tpplan
