// Limits of a manifest.
#pragma once

#include "diagnostics/diagnostics.h"
#include "resolve/infer/sharding_table.h"

namespace tpplan {

// Reports TP9001 if a parameter or the model has too many uneven shards, or if the model's bytes overflow 64 bits.
// Reports TP5006 if a shard ends inside a byte.
void check_limits(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table, Diagnostics& diagnostics);

}  // namespace tpplan
