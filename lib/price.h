// What a plan costs, of a judgement in memory: for who compares plans of one model (judge.h).
#pragma once

#include "judge.h"
#include "measure/measure_collectives.h"
#include "measure/measure_time.h"
#include "measure/measure_training.h"

namespace tpplan {

// Of rank 0 in one training step. Where nobody knows the operations, `memory` is without activations, and `sent` and
// `time` say nothing.
struct Price {
  bool knows_step = false;
  uint64_t parameter_bytes = 0;  // of the rank that holds most
  TrainingMemory memory;
  CallSums sent;
  StepTime time;  // where a topology is given
};

// @pre the plan is legal, and the walk was asked for its trace
[[nodiscard]] Price price_plan(const ModelGraph& graph, const TpPlan& plan, const Judgement& judgement,
                               const WalkOptions& walk, const Recipe& recipe, const Topology* topology = nullptr);

}  // namespace tpplan
