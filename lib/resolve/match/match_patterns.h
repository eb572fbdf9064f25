// Matching of the patterns outside the rules: `fsdp.patterns`, `fsdp.units`, `remat`, `local_attributes` and `init`. In
// every dialect they are globs over full paths.
#pragma once

#include "resolve/match/match_table.h"

namespace tpplan {

// Returns the matches of the patterns. Reports patterns that match nothing: TP4011 for `init`, TP4009 for others.
[[nodiscard]] PatternMatches match_patterns(const TpPlan& plan, const ModelGraph& graph, Diagnostics& diagnostics);

// Returns the patterns' part of `--print matches`.
[[nodiscard]] std::string dump(const PatternMatches& patterns, const TpPlan& plan, const ModelGraph& graph);

}  // namespace tpplan
