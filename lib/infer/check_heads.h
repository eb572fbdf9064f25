// Attention heads are never cut through: what divisibility alone does not see.
#pragma once

#include "diagnostics/diagnostics.h"
#include "infer/sharding_table.h"

namespace tpplan {

// Where a module carries `num_heads` (and `num_kv_heads`, `head_dim`), the projections below it are cut in whole heads:
// 6 heads of 32 over 4 ranks divide as numbers and are still wrong, and so are 2 kv heads over 8 ranks. An error
// (TP5007), with the sizes that would work; in the torch and transformers dialects, which go on and fail in the forward
// pass, a warning (TP5008). A fused q|k|v projection without segments is reported as TP5005 or TP5013.
void check_heads(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table, Diagnostics& diagnostics);

// True when a projection's heads are known and the sharding, its pieces as torch.chunk makes them, cuts through one.
[[nodiscard]] bool cuts_heads(const Mesh& mesh, const ModelGraph& graph, const Param& param, const Sharding& sharding);

}  // namespace tpplan
