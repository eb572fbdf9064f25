// All products together -> Manifest.
#pragma once

#include <string>

#include "diagnostics/diagnostics.h"
#include "infer/apply_init.h"
#include "infer/infer_boundaries.h"
#include "infer/sharding_table.h"
#include "manifest/manifest.h"
#include "match/match_plan.h"

namespace tpplan {

// Adds what follows from the shardings: placements, local shapes, replicas, the axes over which gradients are summed,
// fsdp units and remat regions as module lists, and the totals. Reports a unit or remat pattern that matches nothing
// (TP4009) and lists beyond the limits (TP9001). `model_sha256` and `plan_sha256` are those of the input files' bytes.
Manifest build_manifest(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                        const ShardingTable& table, const BoundaryTable& boundaries, const InitTable& init,
                        Diagnostics& diagnostics);

// Axes over which the gradient of a parameter is summed: the data axes and the fsdp axis (reduce_scatter where they cut
// the parameter, else all_reduce), and the style's axis where each rank sees a part of the values (sequence_parallel,
// replicated_with_grad_allreduce). In mesh order.
std::vector<GradReduce> grad_reduce_of(const TpPlan& plan, const Sharding& sharding, RuleId rule);

}  // namespace tpplan
