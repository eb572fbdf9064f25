// Shardings of tied parameters: they are one tensor and need the same sharding.
#pragma once

#include <string>

#include "diagnostics/diagnostics.h"
#include "resolve/infer/sharding_table.h"

namespace tpplan {

// Gives a tied parameter without a rule the sharding of the first one that has a rule. Reports TP5011 if shardings of
// tied parameters differ. In the torch dialect each parameter keeps its sharding, and a difference is a warning
// (TP5012): torch 2.13 silently unties such weights. In the transformers dialect all have the sharding of the owner,
// and TP5012 warns if only one has a rule. Adds tied parameters with the same sharding to ShardingTable::followers.
void resolve_ties(const TpPlan& plan, const ModelGraph& graph, ShardingTable& table, Diagnostics& diagnostics);

// Returns the parameter whose tensor transformers 5.23 gives to all names of a tie (tie_weights): the embedding's.
[[nodiscard]] ParamId owner_of_tie(const ModelGraph& graph, const Tie& tie);

// Returns the help for parameters that parallelize_module unties. `are_equal`: their shardings are equal.
[[nodiscard]] std::string untied_help(const ModelGraph& graph, ParamId first, ParamId second, bool are_equal);

}  // namespace tpplan
