// Check for shards that split an attention head, which divisibility of the dim does not exclude.
#pragma once

#include <vector>

#include "diagnostics/diagnostics.h"
#include "resolve/infer/sharding_table.h"

namespace tpplan {

// Reports projections whose shards split a head, if a module around them has `num_heads`. For example, 6 heads of size
// 32 over 4 ranks divide evenly and still split heads, as do 2 kv heads over 8 ranks. This is an error (TP5007); in the
// torch and transformers dialects, which fail only in the forward pass, it is a warning (TP5008). A fused q|k|v
// projection without segments is reported as TP5005 or TP5013. Skips rules that gather the output of a projection: the
// model sees whole heads. Skips parameters of the rules in `walk_failed` (by RuleId; may be empty).
void check_heads(const TpPlan& plan, const ModelGraph& graph, const ShardingTable& table,
                 const std::vector<bool>& walk_failed, Diagnostics& diagnostics);

// True if a projection's heads are known and a shard, with the sizes of torch.chunk, splits one.
[[nodiscard]] bool splits_heads(const Mesh& mesh, const ModelGraph& graph, const Param& param,
                                const Sharding& sharding);

}  // namespace tpplan
