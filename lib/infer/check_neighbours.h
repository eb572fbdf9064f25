// What the tree of modules says of a plan when the model file has no operations: layers that are cut without the
// partner that their pieces need. Guesses from names and nesting, so warnings; with operations the walk over them
// decides.
#pragma once

#include "diagnostics/diagnostics.h"
#include "match/match_plan.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"

namespace tpplan {

struct ShardingTable;

// Reports TP5150 (pieces that nothing takes), TP5151 (pieces that nothing leaves), TP5152 (projections of one product
// cut unlike), TP5153 (experts whose sum stays open), TP5154 (an embedding that leaves a piece), TP5155
// (sequence_parallel where nothing cuts the sequence) and TP5156 (a bias cut unlike its weight). Cost: modules +
// matches.
void check_neighbours(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                      const ShardingTable& shardings, Diagnostics& diagnostics);

}  // namespace tpplan
