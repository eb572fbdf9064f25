// FSDP sharding after the rules: one more axis, on the dim that the policy chooses.
#pragma once

#include <span>

#include "diagnostics/diagnostics.h"
#include "resolve/infer/sharding_table.h"
#include "resolve/match/match_table.h"

namespace tpplan {

struct FsdpChoice {
  FsdpDecision decision = FsdpDecision::NoDim;
  size_t dim = 0;  // with FsdpDecision::Sharded
};

// Returns the dim that FSDP shards over its axis, chosen by the policy (plan/fsdp_policies.h). A tensor is not sharded
// if it uses the axis already, or if it has at most `min_weight_size` elements and the policy has a minimum size.
[[nodiscard]] FsdpChoice choose_fsdp_dim(std::span<const int64_t> shape, const Sharding& sharding, const Mesh& mesh,
                                         const FsdpSettings& fsdp);

// Adds the fsdp axis, in place, as the minor axis of one dim of the parameters that `fsdp.patterns` select. Reports
// parameters that the policy cannot shard (TP5014, TP5015, TP5016).
void apply_fsdp(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches, ShardingTable& table,
                Diagnostics& diagnostics);

}  // namespace tpplan
