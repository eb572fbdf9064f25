// The segments of a fused dim that are sharded separately.
#pragma once

#include <optional>
#include <string>

#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "sharding/partition_spec.h"

namespace tpplan {

struct DimSplit {
  std::optional<DimSegments> segments;  // each is sharded separately; absent: the dim is sharded as one
  std::string across;                   // text on the segments of the model that a shard splits; empty: none
};

// Returns how a rule divides a dim that it shards.
[[nodiscard]] DimSplit split_dim(const TpPlan& plan, const ModelGraph& graph, const PlanRule& rule,
                                 const Module& module, const Param& param, size_t dim);

}  // namespace tpplan
