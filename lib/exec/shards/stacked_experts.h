// The parameters of a manifest that stack the matrices of experts.
#pragma once

#include <string_view>
#include <vector>

#include "exec/shards/expert_names.h"
#include "exec/shards/shard_store.h"

namespace tpplan {

// Returns, by shard of the store, the row with the names of its experts' matrices in this naming; nullptr for other
// tensors, and for all if `naming` is empty. The form is the one of transformers: `gate_up_proj` [experts, 2 * inner,
// hidden] next to `down_proj` [experts, hidden, inner]. Throws TP8033 if no tensor has it, or if experts have another.
[[nodiscard]] std::vector<const ExpertRow*> stacked_experts(const ShardStore& store, std::string_view naming);

}  // namespace tpplan
