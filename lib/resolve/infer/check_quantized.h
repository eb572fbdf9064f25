// Check of quantized weights: shards hold whole blocks, and scales are sharded as their weights.
#pragma once

#include "diagnostics/diagnostics.h"
#include "resolve/infer/sharding_table.h"
#include "resolve/match/match_table.h"

namespace tpplan {

// Reports, in every dialect, shards of quantized weights that cannot be dequantized: a shard boundary inside a block
// that shares a scale or a byte (TP5006), scales that are sharded otherwise than their weight (TP5024), and quantized
// parameters of which a rank holds nothing (TP5025). vLLM rejects such plans when it creates the weights;
// transformers 5.23 loads most of them and computes wrong values.
void check_quantized(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches, const ShardingTable& table,
                     Diagnostics& diagnostics);

}  // namespace tpplan
