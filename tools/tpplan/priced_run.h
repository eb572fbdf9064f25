// `check --run --topology`: prices a step with the topology's figures and measured steps.
#pragma once

#include <optional>

#include "commands.h"
#include "cost/step_time.h"
#include "topology/run.h"

namespace tpplan {

struct PricedRun {
  StepAnswer answer;
  Topology topology;
};

// Returns the time of the session's step; empty if its operations are not known, or after reporting a figure that the
// topology lacks or a measured step that cannot be priced. Files of measured steps are relative to the topology.
// `context`: tokens in the cache of a decode step; absent for training.
// @pre the session has compiled its model and plan without errors, and has read its topologies
[[nodiscard]] std::optional<PricedRun> price_run(Session& session, const Run& run, std::optional<int64_t> context);

// Returns the scale of the topology's efficiencies that its measured steps give; the preset's without measured steps.
// Reports a step that cannot be priced, and steps that contradict each other.
// @pre the session has read its topologies, of which `topology` is the result
[[nodiscard]] AssumptionScale fitted_scale(Session& session, const Topology& topology);

}  // namespace tpplan
