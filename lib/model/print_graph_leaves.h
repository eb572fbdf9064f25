// Prints the declarations of leaves, the lines of sizes and guards, and the settings of the trace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/graph_printer.h"

namespace tpplan {

// Begins a statement. Declares the leaves that this statement uses first.
void begin_graph_statement(GraphPrinter& p);

// Prints the lines of sizes and guards at a position (GraphLayout), from index `size` and `guard` on, and advances
// both.
void print_graph_sizes(GraphPrinter& p, uint32_t position, size_t& size, size_t& guard);

// Prints the `trace` line and the rules of operations.
void print_graph_settings(GraphPrinter& p);

}  // namespace tpplan
