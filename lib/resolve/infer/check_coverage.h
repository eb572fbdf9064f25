// Check for large parameters without a rule, and for unused mesh axes.
#pragma once

#include "diagnostics/diagnostics.h"
#include "resolve/infer/infer_boundaries.h"
#include "resolve/infer/sharding_table.h"

namespace tpplan {

// Elements above which a replicated parameter without a rule is reported; the minimum size of FSDP by default.
inline constexpr uint64_t kLargeParameter = uint64_t{1} << 18;

// Reports TP4006 (one diagnostic for all large replicated parameters without a rule, which names the largest) and
// TP4007 (unused mesh axes).
void check_coverage(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches, const ShardingTable& table,
                    Diagnostics& diagnostics);

}  // namespace tpplan
