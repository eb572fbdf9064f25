// Tied weights are one tensor: their names must agree about its sharding.
#pragma once

#include "diagnostics/diagnostics.h"
#include "infer/sharding_table.h"

namespace tpplan {

// An end of a tie without a rule follows the first end that has one; two ends whose rules differ are an error (TP5011).
// In the torch and transformers dialects every end keeps what its framework gives it, and a difference is a warning
// (TP5012: torch 2.13 and transformers 5.23 untie such weights without a word). Ends that agree are entered in
// ShardingTable::followers.
void resolve_ties(const TpPlan& plan, const ModelGraph& graph, ShardingTable& table, Diagnostics& diagnostics);

}  // namespace tpplan
