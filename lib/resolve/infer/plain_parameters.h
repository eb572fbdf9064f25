// Parameters that stay plain tensors next to DTensors.
#pragma once

#include <vector>

#include "resolve/infer/sharding_table.h"
#include "resolve/match/match_table.h"

namespace tpplan {

// Returns the parameters that torch's parallelize_module or transformers leave as plain tensors, if others become
// DTensors. torch 2.13 rejects lists of both: clip_grad_norm_, foreach and fused optimizers. Empty in other dialects,
// and with `fsdp`, which makes DTensors of all parameters.
[[nodiscard]] std::vector<ParamId> plain_parameters(const TpPlan& plan, const ModelGraph& graph,
                                                    const MatchTable& matches, const ShardingTable& table);

}  // namespace tpplan
