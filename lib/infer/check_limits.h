// What a manifest cannot hold.
#pragma once

#include "diagnostics/diagnostics.h"
#include "infer/sharding_table.h"

namespace tpplan {

// TP9001: parameters whose pieces have too many different shapes, and a model whose bytes do not fit into 64 bits.
void check_limits(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table, Diagnostics& diagnostics);

}  // namespace tpplan
