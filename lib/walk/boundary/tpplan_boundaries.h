// Module boundaries as tools/python/tpplan/torch runs them.
#pragma once

#include "walk/state/runtime_row.h"

namespace tpplan {

[[nodiscard]] bool prepare_tpplan_run(Walk& walk);
void enter_tpplan_module(Walk& walk, const GraphNode& node);
void exit_tpplan_module(Walk& walk, const GraphNode& node);
void replace_tpplan_operands(Walk& walk, const GraphNode& node, ReplacedSlots& shown);

}  // namespace tpplan
