// Examples of the walk's diagnostics on the smallest sizes that reproduce them.
#pragma once

#include <vector>

#include "judge/judge.h"
#include "plan/tp_plan.h"

namespace tpplan {

// Returns each example of `examples` at smaller sizes. First finds the smallest size of the main axis that reproduces
// the diagnostic. Then finds the batch and sequence length with the fewest tokens, if the graph's guards hold there
// (ops/resize_graph.h). An example keeps the plan's sizes if none reproduces it or the limit of walked operations is
// reached. Examples without `in_shapes` do not depend on sizes and are returned unchanged.
[[nodiscard]] std::vector<Example> smallest_examples(Checker& checker, const TpPlan& plan, const WalkOptions& walk,
                                                     std::vector<Example> examples);

}  // namespace tpplan
