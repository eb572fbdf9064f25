// Phase: initialization of every parameter and buffer without a checkpoint.
#pragma once

#include <vector>

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "resolve/infer/sharding_table.h"
#include "resolve/match/match_table.h"
#include "sharding/distribution.h"

namespace tpplan {

struct ParamInit {
  uint32_t distribution = kNone;  // into InitTable::distributions; kNone: unspecified
  uint32_t entry = kNone;         // into TpPlan::init; kNone: the default of the module's kind, or unspecified
};

struct InitTable {
  std::vector<Distribution> distributions;  // in order of first use
  std::vector<ParamInit> params, buffers;   // same indices as in the ModelGraph
};

// Returns the initialization of every parameter and buffer. The first entry of `init` applies whose glob matches the
// full path of the parameter or buffer, or of its module. Defaults: ones for norm weights, zeros for biases, and normal
// with std 0.02 for other floating point parameters of linears, embeddings and experts. The rest is unspecified. Tied
// names share the initialization of the first name that an entry matches, else of the first name. Reports entries that
// match and have no effect (TP4011).
[[nodiscard]] InitTable apply_init(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                                   const ShardingTable& shardings, Diagnostics& diagnostics);

}  // namespace tpplan
