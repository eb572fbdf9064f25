// The costs of a step on rank 0: memory that is saved for the backward pass, and matmul FLOPs.
#pragma once

#include <optional>
#include <span>

#include "manifest/step_costs.h"
#include "model/model_graph.h"
#include "walk/state/step_trace.h"

namespace tpplan {

// Returns the bytes of the model's outputs on rank 0; absent if the trace is empty.
[[nodiscard]] std::optional<uint64_t> output_bytes_of_step(const StepTrace& trace);

// `remat`: modules that are recomputed in the backward pass, so that only their inputs are saved. Returns empty costs
// if the trace is empty.
[[nodiscard]] StepCosts count_step(const StepTrace& trace, const ModelGraph& model, std::span<const ModuleId> remat);

}  // namespace tpplan
