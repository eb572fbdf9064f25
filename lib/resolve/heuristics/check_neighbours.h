// Heuristics from the module tree for a model without operations: they find sharded layers without a matching partner.
// They use only names and nesting, so they report warnings. With operations, the walk replaces them.
#pragma once

#include "resolve/heuristics/heuristic_input.h"

namespace tpplan {

// Reports these errors in time linear in modules and matches:
// - TP5150: no layer expects the sharded output
// - TP5151: no layer outputs the shards that a layer expects
// - TP5152: projections that are combined are sharded differently
// - TP5153: the partial output of experts is never reduced
// - TP5154: the output of an embedding is sharded
// - TP5155: sequence_parallel, but no rule shards the sequence
// - TP5156: a bias is sharded differently from its weight
void check_neighbours(const HeuristicInput& in);

}  // namespace tpplan
