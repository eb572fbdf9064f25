// Phase: how every parameter and buffer is filled when there is no checkpoint.
#pragma once

#include <vector>

#include "diagnostics/diagnostics.h"
#include "infer/sharding_table.h"
#include "match/match_plan.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "sharding/distribution.h"

namespace tpplan {

struct ParamInit {
  uint32_t distribution = kNone;  // into InitTable::distributions; kNone: nobody says
  uint32_t entry = kNone;         // into TpPlan::init; kNone: the module's kind says it, or nobody does
};

struct InitTable {
  std::vector<Distribution> distributions;  // that are used, in the order of their first use
  std::vector<ParamInit> params, buffers;   // as in the ModelGraph
};

// The first entry of the plan's `init` whose glob matches the whole path of a parameter, a buffer, or of the module
// that owns it. Without one: ones for the weight of a norm, zeros for a bias, normal with std 0.02 for other floating
// point parameters of linears, embeddings and experts, nothing for the rest. Names of one tensor are filled alike: by
// the first name that an entry matches, else as the first name. Reports entries that match and decide nothing (TP4011).
[[nodiscard]] InitTable apply_init(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                                   const ShardingTable& shardings, Diagnostics& diagnostics);

}  // namespace tpplan
