// Operations whose rules take the size of a dim from the recorded result: what it is at other sizes.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_call.h"

namespace tpplan {

using Sizes = std::vector<int64_t>;

// `x` are the sizes of the first operand, on the one rank that the call knows; corrects `out`, those of a result as its
// rule has them.
using SizeRule = void (*)(const OpCall& call, const Sizes& x, Sizes& out);

// nullptr: the op's rule says the sizes by itself.
[[nodiscard]] SizeRule find_size_rule(std::string_view op);

}  // namespace tpplan
