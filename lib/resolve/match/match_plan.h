// Phase: matching of a plan's rules to the parameters and module boundaries of a model.
#pragma once

#include <string>

#include "resolve/match/match_table.h"

namespace tpplan {

// Matches rules by the plan's dialect (plan/dialects.h), and other patterns with match_patterns. Reports dead,
// shadowed, duplicate and contradicting rules, and dead patterns. `hits` is an optional cache that is shared between
// plans (resolve/match/key_hits.h).
[[nodiscard]] MatchTable match_plan(const TpPlan& plan, const ModelGraph& graph, Diagnostics& diagnostics,
                                    KeyHits* hits = nullptr);

// Returns the text of `--print matches`: the rule of each parameter, the boundaries, the matches of patterns, and the
// counts of rules and patterns.
[[nodiscard]] std::string dump(const MatchTable& table, const TpPlan& plan, const ModelGraph& graph);

}  // namespace tpplan
