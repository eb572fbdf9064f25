// What the pictures of a step are drawn from (report/render_trace.h, report/render_pictures.h).
#pragma once

#include <vector>

#include "cost/measure_training.h"
#include "cost/step_timeline.h"
#include "sharding/mesh.h"
#include "topology/topology.h"

namespace tpplan {

// The step of one plan, as its run specifies. Text views of `timeline` point into the model and its forecast.
struct StepPicture {
  Mesh mesh;
  Topology topology;  // on `mesh`
  PrintedStepTime answer;
  TrainingMemory memory;  // with `peak` if `intervals` is not empty
  StepTimeline timeline;
  std::vector<MemoryInterval> intervals;
};

}  // namespace tpplan
