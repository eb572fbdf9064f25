// The costs of a checked plan, to compare plans of a model (judge/judge.h).
#pragma once

#include "cost/measure_collectives.h"
#include "cost/measure_time.h"
#include "cost/measure_training.h"
#include "cost/peak_memory.h"
#include "judge/judge.h"

namespace tpplan {

// Costs of rank 0 in a training step. Without operations, `memory` excludes activations, and `sent` and `time` are
// empty.
struct Price {
  bool is_step_known = false;
  uint64_t parameter_bytes = 0;  // maximum over ranks
  TrainingMemory memory;
  CallSums sent;
  StepTime time;  // set if a topology is given
};

// Returns the memory of a step of the forecast. `recipe` applies to training.
[[nodiscard]] TrainingMemory measure_step_memory(const Manifest& manifest, const Forecast& forecast,
                                                 const Recipe& recipe);

// Returns the memory of a step that runs as `run` specifies: the peak over the step's time if the walk recorded all
// operations of a training step (TrainingMemory::peak), else that of measure_step_memory. `log`: see measure_peak.
[[nodiscard]] TrainingMemory measure_run_memory(const ModelGraph& graph, const TpPlan& plan, const Manifest& manifest,
                                                const CheckResult& plan_result, const Run& run, const Recipe& recipe,
                                                MemoryLog* log = nullptr);

// Returns the costs of a plan from its check result.
// @pre the plan has no errors, and the walk recorded its trace
[[nodiscard]] Price price_plan(const ModelGraph& graph, const TpPlan& plan, const CheckResult& plan_result,
                               const WalkOptions& walk, const Recipe& recipe, const Topology* topology = nullptr);

}  // namespace tpplan
