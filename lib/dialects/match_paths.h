// Keys that address whole paths of modules and parameters, the more exact key wins: what glob and regex share.
#pragma once

#include "match/match_plan.h"

namespace tpplan {

// Keys by the dialect's syntax: all regular expressions, or globs and exact paths.
void match_paths(const TpPlan& plan, const ModelGraph& graph, MatchTable& table, Diagnostics& diagnostics,
                 KeyHits* hits);

}  // namespace tpplan
