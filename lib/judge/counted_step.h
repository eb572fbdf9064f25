// The work of a step of a checked plan, which lib/cost prices.
#pragma once

#include <vector>

#include "cost/decode_time.h"
#include "cost/step_time.h"
#include "judge/judge.h"

namespace tpplan {

struct CountedStep {
  std::vector<StepParameter> parameters;
  StepWork work;  // of one micro-batch
  std::vector<AxisId> data_axes;
  AxisId fsdp_axis = kNoAxis;
  bool has_backward = true;  // false in inference
};

// Returns the work of a step that runs as `run` specifies. `work` is empty if the walk recorded no trace.
// @pre the plan has no errors
[[nodiscard]] CountedStep count_checked_step(const ModelGraph& graph, const TpPlan& plan, const CheckResult& result,
                                             const Run& run);

// Returns the number of ranks that FSDP shards parameters over on a mesh; 1 without FSDP.
[[nodiscard]] int64_t fsdp_ranks_of(const CountedStep& step, const Mesh& mesh);

// Returns the input of step_seconds. It refers to the arguments. The mesh can have other sizes of data axes than that
// of the counted step.
[[nodiscard]] StepSetting setting_of(const CountedStep& step, const Run& run, const Recipe& recipe, const Mesh& mesh);

}  // namespace tpplan
