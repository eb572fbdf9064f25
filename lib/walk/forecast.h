// The forecast of a step: every collective, what one rank runs, or why they are not known.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_graph.h"
#include "sharding/collective_call.h"
#include "sharding/compiled_call.h"
#include "walk/state/example_table.h"
#include "walk/state/step_trace.h"

namespace tpplan {

// Why the collectives of a step are unknown.
enum class ForecastLimit : uint8_t {
  None,         // they are known
  NotReached,   // an earlier phase found an error in the plan
  NoGraph,      // the model file has no operations
  Broken,       // the run would fail
  Undescribed,  // an operation has no rule (TP5114)
  Global,       // JAX or Keras without operations, or shard_map operations in another runtime: global arrays
  Elsewhere,    // the shard_map runtime is requested for operations that were not traced under it
  Forward,      // operations traced under jax.shard_map: only their forward pass is walked
  Compiled,     // a program of JAX or Keras: Forecast::compiled has the collectives that XLA inserts
};

// Every collective of one step in order and, on request, the operations of one rank.
struct Forecast {
  ForecastLimit limit = ForecastLimit::NotReached;
  bool infer = false;                  // without a backward pass (WalkOptions::infer)
  std::vector<CollectiveCall> calls;   // of None and Forward
  std::vector<CompiledCall> compiled;  // of Compiled
  std::string uncovered;               // of Compiled: what propagation does not cover, for the summary; may be empty
  std::string advice;                  // of Compiled: a change that saves bytes, for the summary; may be empty
  std::vector<AxisId> unlisted;        // data axes whose calls the wrapper of the model makes; not in `calls`
  ModuleId broken_at = kNone;          // of Broken: the module in which the run fails
  std::string listing;                 // the walk as text, on request (walk/report/list_operations.h)
  std::vector<Example> examples;       // of diagnostics, on request (walk/report/example.h)
  StepTrace trace;                     // on request, if all axes are walked together
  uint32_t repeated = 0,
           repeated_backward = 0;  // layers that were skipped forward and backward (walk/run/repeat_layers.h)
};

// Return the human-readable reason and the fix of a gap; empty for None.
[[nodiscard]] std::string_view to_text(ForecastLimit limit);
[[nodiscard]] std::string_view fix_of(ForecastLimit limit);
// Returns the checks that a gap skips although the plan has no error; empty for the other gaps.
[[nodiscard]] std::string_view unchecked_by(ForecastLimit limit);
// Returns checks, reason and fix as one sentence; empty if no check is skipped.
[[nodiscard]] std::string unchecked_text(ForecastLimit limit);

}  // namespace tpplan
