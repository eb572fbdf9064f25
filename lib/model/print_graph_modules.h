// Prints the lines that enter and leave modules, with the values that cross their boundaries.
#pragma once

#include <cstdint>

#include "model/graph_printer.h"

namespace tpplan {

// Prints `with path(x, mask=y):` for node `index`.
void print_graph_enter(GraphPrinter& p, const GraphNode& node, uint32_t index);

// Prints `nonlocal` and `return` at the end of a module.
void print_graph_exit(GraphPrinter& p, const GraphNode& node);

}  // namespace tpplan
