// Conversion of a MatchTable to a ShardingTable: the checked spec of each parameter.
#pragma once

#include "diagnostics/diagnostics.h"
#include "resolve/infer/sharding_table.h"
#include "resolve/match/match_table.h"

namespace tpplan {

// Returns the sharding of each parameter; parameters without a rule are replicated. A style shards the dim that
// style_table.cc names. The glob, regex and keras dialects find it by dim name, torch by module class, and transformers
// by the number of dims. Reports specs that do not fit (TP5001 to TP5006, TP5018), modules that a style does not
// support (TP5009, TP5010), and shards that split fused segments (TP5013).
[[nodiscard]] ShardingTable infer_params(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                                         Diagnostics& diagnostics);

}  // namespace tpplan
