// Operations on sizes: how they are called in the graph, and their arithmetic, which is Python's of whole numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/op_graph.h"

namespace tpplan {

// The operation that a graph calls so.
[[nodiscard]] std::optional<SizeOp> find_size_op(std::string_view name);

// How many operands it takes: 1 or 2.
[[nodiscard]] size_t operands_of(SizeOp op);

// What a size's operation makes of two numbers; false where it has no result (division by zero, overflow).
[[nodiscard]] bool apply_size_op(SizeOp op, int64_t a, int64_t b, int64_t& result);

}  // namespace tpplan
