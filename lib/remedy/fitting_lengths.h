// Lengths of the sequence, beside the one that is asked of, with which a plan is right as it stands: what cuts a
// sequence into pieces may need pieces of a certain size.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "walk/walk_graph.h"

namespace tpplan {

// What is tried at most, in plans judged.
inline constexpr uint64_t kMostLengths = 4;

// Those next to the graph's own that `ranks` ranks, or twice as many pieces, share out evenly: tried on the graph at
// that length, where its guards hold (ops/resize_graph.h), ascending.
[[nodiscard]] std::vector<int64_t> fitting_lengths(const ModelGraph& graph, const TpPlan& plan, const WalkOptions& walk,
                                                   int64_t ranks);

}  // namespace tpplan
