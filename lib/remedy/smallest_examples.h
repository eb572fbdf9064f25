// Findings of the walk on the smallest sizes that have them.
#pragma once

#include <vector>

#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "walk/walk_graph.h"

namespace tpplan {

// Tries the sizes of the axis that styles shard over from the smallest up, and at the first where a finding is one
// still the lengths of sequences from one up with a batch of one, as far as the model's code goes the same way there
// (ops/resize_graph.h). `own` are the examples at the plan's own sizes, and what stays where a limit on operations
// walked is met. Findings in numbers name no sizes: two ranks and pieces of one element are the smallest that there
// are.
[[nodiscard]] std::vector<Example> smallest_examples(const ModelGraph& graph, const TpPlan& plan,
                                                     const WalkOptions& walk, std::vector<Example> own);

}  // namespace tpplan
