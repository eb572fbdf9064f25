// Prints the arguments of operations and the expressions of sizes.
#pragma once

#include <cstdint>
#include <string>

#include "model/graph_printer.h"

namespace tpplan {

// Appends a size: a number, the name of a size, or its expression, in parentheses if it is nested in another one.
void append_graph_size(GraphPrinter& p, std::string& line, const SizeOperand& operand, bool is_nested);

// Appends the expression of a size, even if the size has a name: its `size` line needs the expression.
void append_graph_size_entry(GraphPrinter& p, std::string& line, const SizeEntry& entry, bool is_nested);

// Appends the argument at index `at` of OpGraph::args. Returns the index of the next argument.
[[nodiscard]] uint32_t append_graph_arg(GraphPrinter& p, std::string& line, uint32_t at);

// Appends an index in Python's syntax. A slice nested in a tuple is written `slice(a, b, c)`.
void append_graph_index(GraphPrinter& p, std::string& line, uint32_t at);

}  // namespace tpplan
