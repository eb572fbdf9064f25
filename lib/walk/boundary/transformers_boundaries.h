// Module boundaries as transformers runs them.
#pragma once

#include "model/op_graph.h"

namespace tpplan {

struct Walk;

void enter_transformers_module(Walk& walk, const GraphNode& node);
void exit_transformers_module(Walk& walk, const GraphNode& node);

}  // namespace tpplan
