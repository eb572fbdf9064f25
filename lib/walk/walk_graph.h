// Walks the operations of a model as they run under a plan: forward with what every rank holds of each value, then
// backward with what its gradient is. Finds what would fail, and lists every collective. One walk for each mesh axis
// that styles use; eager execution is deterministic, so that there is nothing to search.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/diagnostics.h"
#include "infer/infer_boundaries.h"
#include "infer/sharding_table.h"
#include "match/match_plan.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "sharding/redistribute.h"

namespace tpplan {

struct WalkOptions {
  std::optional<PlanRuntime> runtime;  // absent: the plan's dialect's own
  bool infer = false;                  // without gradients
};

// One call of rank 0 in one step.
struct ForecastCall {
  bool backward = false;
  CollectiveKind kind{};
  AxisId axis = 0;
  std::string_view module;
  std::vector<int64_t> shape;  // of its input
  std::string_view dtype;
  int64_t bytes = 0;
};

struct Forecast {
  bool is_there = false;  // there was a graph, and it was walked to its end
  std::vector<ForecastCall> calls;
};

// Reports TP5101 to TP5115. Does nothing where the model has no graph.
[[nodiscard]] Forecast walk_graph(const TpPlan& plan, const ModelGraph& model, const MatchTable& matches,
                                  const ShardingTable& shardings, const BoundaryTable& boundaries,
                                  const WalkOptions& options, Diagnostics& diagnostics);

}  // namespace tpplan
