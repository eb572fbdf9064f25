// FSDP on top of what the rules say: one more axis, on the dim that the policy chooses.
#pragma once

#include <span>

#include "diagnostics/diagnostics.h"
#include "infer/sharding_table.h"

namespace tpplan {

struct FsdpChoice {
  FsdpDecision decision = FsdpDecision::NoDim;
  size_t dim = 0;  // with FsdpDecision::Sharded
};

// Which dim of a tensor FSDP cuts over `axis`.
// - largest_dim: `predict_shard_params_fn` (an equinox project's function): a tensor that is on the axis already,
// inside a
//   tuple too, or that has at most `min_weight_size` elements stays; otherwise the first dim, from the largest down,
//   that no axis cuts and that the axis divides. Of equal dims the last comes first: numpy.argsort(shape,
//   kind="stable")[::-1].
// - compose: the same by the size that a rank has left of each dim, which the axis may cut again (as the minor axis).
// - dim0: torch 2.13, fully_shard: dim 0 of every tensor, whatever its size, uneven as torch.chunk; no scalars (NoDim).
FsdpChoice choose_fsdp_dim(std::span<const int64_t> shape, const Sharding& sharding, const Mesh& mesh,
                           const FsdpSettings& fsdp);

// Edits the table in place: each parameter keeps its spec, or gets the fsdp axis as the minor axis of one dim. Reports
// what the policy could not do (TP5014, TP5015, TP5016) and patterns that match nothing (TP4009).
void apply_fsdp(const TpPlan& plan, const ModelGraph& graph, ShardingTable& table, Diagnostics& diagnostics);

}  // namespace tpplan
