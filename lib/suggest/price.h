// The costs of a checked plan, to compare plans of a model (judge/judge.h).
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cost/measure_collectives.h"
#include "cost/measure_time.h"
#include "cost/measure_training.h"
#include "cost/peak_memory.h"
#include "cost/step_time.h"
#include "judge/judge.h"
#include "topology/read_speeds.h"

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

// How the steps of several plans of a model run, and on what.
struct CostInputs {
  Run run;                            // as its file specifies it, not yet settled for a plan
  std::span<const SpeedFile> speeds;  // topologies; empty: no time
  bool infer = false;
  AssumptionScale scale = kAsGiven;  // what measured steps correct
};

// The costs of a step that runs as a run specifies: those of `tpplan check --run`.
struct RunPrice {
  TrainingMemory memory;
  double seconds = 0;               // 0: without a topology, or if the operations are not known
  std::string_view missing_figure;  // of the topology, for the seconds; empty if it lacks none
};

// Returns the memory of a step of the forecast. `recipe` applies to training.
[[nodiscard]] TrainingMemory measure_step_memory(const Manifest& manifest, const Forecast& forecast,
                                                 const Recipe& recipe);

// Returns the memory of a step that runs as `run` specifies: the peak over the step's time if the walk recorded all
// operations of a training step (TrainingMemory::peak), else that of measure_step_memory. `log`: see measure_peak.
[[nodiscard]] TrainingMemory measure_run_memory(const ModelGraph& graph, const TpPlan& plan, const Manifest& manifest,
                                                const CheckResult& plan_result, const Run& run, const Recipe& recipe,
                                                MemoryLog* log = nullptr);

// Returns the run of a step with this plan, as `tpplan check` settles it. Ignores contradictions with the plan.
[[nodiscard]] Run completed_run(const Run& run, const TpPlan& plan, const OpGraph& graph);

// Returns the costs of a step from the check result of its plan. `run` is settled. `topology` is of the plan's mesh;
// nullptr: no time.
// @pre the plan has no errors, and the walk recorded its trace
[[nodiscard]] RunPrice price_checked_run(const ModelGraph& graph, const TpPlan& plan, const Manifest& manifest,
                                         const CheckResult& plan_result, const Run& run, const Topology* topology,
                                         const AssumptionScale& scale);

// Returns the memory of a step of a plan that is not checked yet, with the capacity of the topology's GPU. Reports
// sizes of the run that the model does not have, and speeds that the plan's mesh does not have; ignores diagnostics of
// the plan.
[[nodiscard]] std::optional<TrainingMemory> memory_of_plan(const ModelGraph& model, const TpPlan& plan,
                                                           const CostInputs& inputs, Diagnostics& diagnostics);

// Returns the parameter bytes of the rank that holds the most, from a check result that can lack `init`.
// @pre the plan has no errors
[[nodiscard]] uint64_t largest_parameter_bytes(const ModelGraph& graph, const TpPlan& plan,
                                               const CheckResult& plan_result, const WalkOptions& walk);

// Returns the costs of a plan from its check result.
// @pre the plan has no errors, and the walk recorded its trace
[[nodiscard]] Price price_plan(const ModelGraph& graph, const TpPlan& plan, const CheckResult& plan_result,
                               const WalkOptions& walk, const Recipe& recipe, const Topology* topology = nullptr);

}  // namespace tpplan
