// Other sequence lengths with which an unchanged plan is correct, because a plan that shards the sequence may need
// shards of certain sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "walk/walk_graph.h"

namespace tpplan {

// Maximum number of checks of fitting_lengths.
inline constexpr uint64_t kMostLengths = 4;

// Returns the correct lengths, ascending. Candidates are the lengths next to the graph's length that `ranks` or
// 2 * `ranks` divides. Each is checked on the resized graph and skipped if a guard fails (ops/resize_graph.h).
[[nodiscard]] std::vector<int64_t> fitting_lengths(const ModelGraph& graph, const TpPlan& plan, const WalkOptions& walk,
                                                   int64_t ranks);

}  // namespace tpplan
