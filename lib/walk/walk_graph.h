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
#include "sharding/collective_call.h"
#include "walk/example_table.h"
#include "walk/model_tables.h"
#include "walk/step_trace.h"

namespace tpplan {

struct KeptWalk;

struct WalkOptions {
  std::optional<PlanRuntime> runtime;   // absent: the plan's dialect's own
  bool infer = false;                   // without gradients
  bool listing = false;                 // writes Forecast::listing
  bool examples = false;                // writes Forecast::examples
  bool trace = false;                   // writes Forecast::trace
  const ModelTables* tables = nullptr;  // of the model, for who walks it often; nullptr: made anew
  KeptWalk* kept = nullptr;             // of the walks before this one, by who has it alone (walk/kept_walk.h)
};

// Why nobody knows the collectives of a step.
enum class ForecastGap : uint8_t {
  None,         // they are known
  NotReached,   // an error of the plan, found before
  NoGraph,      // the model file has no operations
  Broken,       // the run would end before its step does
  Undescribed,  // an operation that no rule describes (TP5114)
  Global,       // a model of JAX or Keras without operations: they run on whole arrays
  Elsewhere,    // operations that another runtime runs than the one that is asked for
  Forward,      // what was recorded under jax.shard_map: a forward pass, which is walked
};

// Every call of one step, in order; and, where WalkOptions asked for it, what one rank runs.
struct Forecast {
  ForecastGap gap = ForecastGap::NotReached;
  std::vector<CollectiveCall> calls;  // of None
  std::vector<AxisId> unlisted;       // data axes whose calls are made by who wraps the model, and are not among them
  ModuleId broken_at = kNone;         // of Broken: where the run would end
  std::string listing;                // the walk as text, where WalkOptions asked for it (walk/list_operations.h)
  std::vector<Example> examples;      // of findings, where WalkOptions asked for them (walk/example.h)
  StepTrace trace;                    // of None, where all axes are walked together
  uint32_t repeated = 0, repeated_back = 0;  // layers that were not walked (walk/repeat_layers.h), and on the way back
};

// What a gap is in words, and what to do about it; empty for None.
[[nodiscard]] std::string_view to_text(ForecastGap gap);
[[nodiscard]] std::string_view remedy_of(ForecastGap gap);
// Which checks a gap leaves out without an error of the plan; empty for the others.
[[nodiscard]] std::string_view unchecked_by(ForecastGap gap);
// The three as one sentence; empty where no check is left out.
[[nodiscard]] std::string unchecked_text(ForecastGap gap);

// Reports TP5102 to TP5118, and TP5121 to TP5123. Does nothing where the model has no graph.
[[nodiscard]] Forecast walk_graph(const TpPlan& plan, const ModelGraph& model, const MatchTable& matches,
                                  const ShardingTable& shardings, const BoundaryTable& boundaries,
                                  const WalkOptions& options, Diagnostics& diagnostics);

}  // namespace tpplan
