// Modules by pattern, outermost first: blocks, fsdp units, remat regions.
#pragma once

#include <span>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "match/match_plan.h"
#include "match/nearest_path.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"

namespace tpplan {

// For each pattern the modules whose whole path matches the glob and that stand below no other match of it, in file
// order. `layers.*` is the layers, not everything below them. A pattern without a star is looked up.
[[nodiscard]] std::vector<std::vector<ModuleId>> outermost_matches(const ModelGraph& graph,
                                                                   std::span<const ModulePattern> patterns);

// The modules of several patterns together, each once, in file order, and how many each pattern matches. One that
// matches no module is reported (TP4009); `what` names the setting.
[[nodiscard]] std::vector<ModuleId> select_modules(const ModelGraph& graph, const std::vector<ModulePattern>& patterns,
                                                   std::string_view what, std::vector<PatternCount>& counts,
                                                   Diagnostics& diagnostics);

void report_dead_pattern(PathHints& hints, const ModulePattern& pattern, std::string_view what,
                         Diagnostics& diagnostics);

}  // namespace tpplan
