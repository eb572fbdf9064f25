// Modules by pattern, outermost first: blocks, fsdp units, remat regions.
#pragma once

#include <vector>

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"

namespace tpplan {

// The parent of each module, kNone for the root.
std::vector<ModuleId> parents_of(const ModelGraph& graph);

// Modules whose whole path matches the glob and that stand below no other match, in file order. `layers.*` is the layers,
// not everything below them.
std::vector<ModuleId> outermost_matches(const ModelGraph& graph, const std::vector<ModuleId>& parents, const ModulePattern& pattern);

// The modules of several patterns together, each once, in file order. A pattern that matches no module is reported
// (TP4009); `what` names the setting.
std::vector<ModuleId> select_modules(const ModelGraph& graph, const std::vector<ModulePattern>& patterns, std::string_view what,
                                     Diagnostics& diagnostics);

// For each module the selected module that it is or stands below, kNone for the rest.
std::vector<ModuleId> enclosing_modules(const ModelGraph& graph, const std::vector<ModuleId>& parents, const std::vector<ModuleId>& selected);

void report_dead_pattern(const ModelGraph& graph, const ModulePattern& pattern, std::string_view what, Diagnostics& diagnostics);

}  // namespace tpplan
