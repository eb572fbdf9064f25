// All products together -> Manifest.
#pragma once

#include "infer/apply_init.h"
#include "infer/infer_boundaries.h"
#include "infer/sharding_table.h"
#include "manifest/manifest.h"
#include "match/match_plan.h"

namespace tpplan {

// What follows from the products for each parameter and module: placements, local shapes, replicas, the axes over which
// gradients are summed, totals. Nothing is decided here, and nothing found wrong. `model_sha256` and `plan_sha256` are
// those of the input files' bytes.
[[nodiscard]] Manifest build_manifest(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                                      const ShardingTable& table, const BoundaryTable& boundaries,
                                      const InitTable& init, PlanRuntime runtime);

// What its rules say of the modules and parameters that they decide over: readers hold these to it. Apart, for who asks
// for numbers alone (price.h) has no use for it.
void add_rule_facts(Manifest& manifest);

}  // namespace tpplan
