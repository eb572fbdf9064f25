// Selection of the outermost modules that match a pattern: blocks, fsdp units, remat regions.
#pragma once

#include <span>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "resolve/match/match_table.h"
#include "resolve/match/nearest_path.h"

namespace tpplan {

// Returns, by pattern, the modules whose full path matches the glob, without modules inside another match, in file
// order. For example, `layers.*` selects the layers and not their submodules.
[[nodiscard]] std::vector<std::vector<ModuleId>> outermost_matches(const ModelGraph& graph,
                                                                   std::span<const ModulePattern> patterns);

// Returns the union of the patterns' modules in file order, and appends the match count of each pattern to `counts`.
// Reports patterns without a match (TP4009); `what` names the setting.
[[nodiscard]] std::vector<ModuleId> select_modules(const ModelGraph& graph, const std::vector<ModulePattern>& patterns,
                                                   std::string_view what, std::vector<PatternCount>& counts,
                                                   Diagnostics& diagnostics);

void report_dead_pattern(PathHints& hints, const ModulePattern& pattern, std::string_view what,
                         Diagnostics& diagnostics);

}  // namespace tpplan
