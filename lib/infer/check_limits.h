// What a manifest cannot hold.
#pragma once

#include "diagnostics/diagnostics.h"
#include "infer/sharding_table.h"

namespace tpplan {

// TP9001: parameters, and a model, cut into too many uneven pieces, and a model whose bytes do not fit into 64 bits.
// TP5006: shards that would end inside a byte.
void check_limits(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table, Diagnostics& diagnostics);

}  // namespace tpplan
