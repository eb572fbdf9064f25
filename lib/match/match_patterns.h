// The patterns of a plan beside its rules: `fsdp.patterns`, `fsdp.units`, `remat` and `init`. Globs over whole paths,
// in every dialect.
#pragma once

#include "match/match_plan.h"

namespace tpplan {

// Reports patterns that match nothing: TP4009, and TP4011 of `init`.
[[nodiscard]] PatternMatches match_patterns(const TpPlan& plan, const ModelGraph& graph, Diagnostics& diagnostics);

// Their part of `--print matches`.
[[nodiscard]] std::string dump(const PatternMatches& patterns, const TpPlan& plan, const ModelGraph& graph);

}  // namespace tpplan
