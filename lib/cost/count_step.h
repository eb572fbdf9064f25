// What a step costs rank 0, from what it runs: memory that is kept, and work.
#pragma once

#include <span>

#include "manifest/step_costs.h"
#include "model/model_graph.h"
#include "walk/step_trace.h"

namespace tpplan {

// `remat`: modules whose operations run again in the backward pass, so that of each only what it is given is kept.
// Nothing is there where the trace is not.
[[nodiscard]] StepCosts count_step(const StepTrace& trace, const ModelGraph& model, std::span<const ModuleId> remat);

}  // namespace tpplan
