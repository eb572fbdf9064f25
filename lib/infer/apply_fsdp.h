// FSDP on top of what the rules say: one more axis, on the dim that the policy chooses.
#pragma once

#include <span>

#include "diagnostics/diagnostics.h"
#include "infer/sharding_table.h"
#include "match/match_plan.h"

namespace tpplan {

struct FsdpChoice {
  FsdpDecision decision = FsdpDecision::NoDim;
  size_t dim = 0;  // with FsdpDecision::Sharded
};

// Which dim of a tensor FSDP cuts over its axis: a tensor that is on the axis already, inside a tuple too, or that has
// at most `min_weight_size` elements stays, of others the policy chooses (plan/fsdp_policies.h).
[[nodiscard]] FsdpChoice choose_fsdp_dim(std::span<const int64_t> shape, const Sharding& sharding, const Mesh& mesh,
                                         const FsdpSettings& fsdp);

// Edits the table in place: each parameter that `fsdp.patterns` select keeps its spec, or gets the fsdp axis as the
// minor axis of one dim. Reports what the policy could not do (TP5014, TP5015, TP5016).
void apply_fsdp(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches, ShardingTable& table,
                Diagnostics& diagnostics);

}  // namespace tpplan
