// What the plan leaves out: large parameters on every rank, mesh axes without work, gradients that nobody sums.
#pragma once

#include "diagnostics/diagnostics.h"
#include "infer/infer_boundaries.h"
#include "infer/sharding_table.h"

namespace tpplan {

// Parameters above this many elements that end up whole on every rank without a rule are reported (the size from which
// FSDP shards by default).
inline constexpr uint64_t kLargeParameter = uint64_t{1} << 18;

// TP4006 large parameters that no rule matches and that stay replicated (one diagnostic, the largest named), TP4007
// mesh axes that nothing uses, TP5019 norms between sharded operations whose gradient is a sum over the axis that
// nothing takes: norms beside sequence-parallel ones, and q/k norms behind column-sharded projections.
void check_coverage(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches, const ShardingTable& table,
                    Diagnostics& diagnostics);

}  // namespace tpplan
