// Conversion of the results of all phases to a Manifest.
#pragma once

#include "manifest/manifest.h"
#include "resolve/infer/apply_init.h"
#include "resolve/infer/infer_boundaries.h"
#include "resolve/infer/sharding_table.h"
#include "resolve/match/match_table.h"

namespace tpplan {

// Returns the manifest without paths: placements, local shapes, replicas, gradient reductions and totals, derived from
// the results of the phases. Makes no decisions and reports no diagnostics. `model_sha256` and `plan_sha256` are hashes
// of the bytes of the input files.
[[nodiscard]] Manifest build_manifest(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                                      const ShardingTable& table, const BoundaryTable& boundaries,
                                      const InitTable& init, PlanRuntime runtime);

// Returns the paths of the manifest that is built from these. They are put together on demand.
[[nodiscard]] ManifestPaths paths_of(const ModelGraph& graph, const BoundaryTable& boundaries);

// Stores the paths in the manifest.
void add_paths(Manifest& manifest, const ManifestPaths& paths);

// Adds what each rule specifies for its modules and parameters, so that readers can check the manifest against it.
// Separate because callers that need only the costs (suggest/price.h) do not use it.
void add_rule_facts(Manifest& manifest, const ModelGraph& graph, const BoundaryTable& boundaries);

}  // namespace tpplan
