// `--run` and `--topology`: the memory and the time of a step. `check`, `diff` and `suggest` print the same numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "cost/measure_training.h"
#include "cost/memory_log.h"
#include "cost/step_time.h"
#include "timed_step.h"
#include "topology/read_run.h"

namespace tpplan {

struct PricedRun {
  PrintedStepTime answer;
  Topology topology;
};

// Reads the run of a command into the session; the default run if `path` is empty. Options of the command line replace
// its values, and its batch and sequence become those of `inputs`.
[[nodiscard]] RunFile read_session_run(Session& session, const std::string& path, std::string_view recipe,
                                       InputArguments& inputs);

// The step of a command. The run is settled for the session's plan.
struct StepRequest {
  const Run& run;
  bool has_run = false;                    // peak memory and time of the run; otherwise the sums of the exported step
  const std::vector<std::string>& speeds;  // as CheckArguments
  bool decodes = false;                    // one token of each sequence
  int64_t context = 0;                     // of inference: tokens in the cache of each sequence; 0: no cache
  std::string_view cache_dtype{};          // of the cache; empty: the model's
  bool draws = false;                      // StepNumbers::spans are wanted
};

// The memory and the time of a step, if the plan has no errors.
struct StepNumbers {
  TrainingMemory memory;
  std::optional<TimedStep> timed;
  std::optional<PricedRun> priced;  // with a run or in decode, instead of `timed`
  bool is_requested = false;        // `priced` is wanted, and no file has an error
  bool has_memory = false;
  std::vector<ReplaySpan> spans;  // of the memory over the step
};

// Computes memory and time of the session's step. Reports errors of topology files in the session's diagnostics.
// @pre the session has compiled its model and plan
[[nodiscard]] StepNumbers step_numbers(Session& session, const StepRequest& request);

// Returns the scale of the topology's efficiencies that its measured steps give; the preset's without measured steps.
// Reports a step that cannot be priced, and steps that contradict each other.
// @pre the session has read its topologies, of which `topology` is the result
[[nodiscard]] AssumptionScale fitted_scale(Session& session, const Topology& topology);

}  // namespace tpplan
