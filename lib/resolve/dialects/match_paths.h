// Matching of keys against full paths of modules and parameters, shared by the glob and regex dialects. The more exact
// key takes precedence.
#pragma once

#include "resolve/match/match_table.h"

namespace tpplan {

// Matches all keys in the dialect's syntax: regular expressions, or globs and exact paths.
void match_paths(const TpPlan& plan, const ModelGraph& graph, MatchTable& table, Diagnostics& diagnostics,
                 KeyHits* hits);

}  // namespace tpplan
