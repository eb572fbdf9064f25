// Operations on sizes: their names in the graph, and their arithmetic, which is Python's integer arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/op_graph.h"

namespace tpplan {

// Returns the operation with this name in the graph.
[[nodiscard]] std::optional<SizeOp> find_size_op(std::string_view name);

// Returns the name of the operation in a graph.
[[nodiscard]] std::string_view to_text(SizeOp op);

// Returns the number of operands: 1 or 2.
[[nodiscard]] size_t operands_of(SizeOp op);

// Computes the result of a size operation. Returns false if it has none (division by zero, overflow, a fraction).
[[nodiscard]] bool apply_size_op(SizeOp op, int64_t a, int64_t b, int64_t& result);

}  // namespace tpplan
