// MatchTable -> ShardingTable: the spec of each parameter by its rule, proven legal.
#pragma once

#include "diagnostics/diagnostics.h"
#include "infer/sharding_table.h"
#include "match/match_plan.h"

namespace tpplan {

// Styles cut the dim that style_table.cc names: by dim name in the glob, regex and keras dialects, by torch's module
// classes in torch, by the number of dims in transformers. Parameters without a rule are replicated. Reports specs that
// do not fit (TP5001 to TP5006, TP5018), modules that a style does not support (TP5009, TP5010), and cuts across fused
// segments that the framework would make (TP5013).
[[nodiscard]] ShardingTable infer_params(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                                         Diagnostics& diagnostics);

}  // namespace tpplan
