// The collectives that XLA inserts into the program of a JAX or Keras model under a plan.
#pragma once

#include "programs/propagate_program.h"
#include "resolve/infer/resolved_plan.h"
#include "walk/forecast.h"

namespace tpplan {

// Returns the program of the model, placed by the plan: parameters and their gradients have the plan's shardings,
// inputs are sharded along the batch over its data axes, and values at module boundaries have the layouts that
// tpplan.jax constrains them to (for Keras: the outputs that a LayoutMap can express). @pre the model has a program
[[nodiscard]] programs::Program place_model_program(const ResolvedPlan& plan, size_t& ignored_constraints);

// Returns the forecast of the program's collectives, as XLA partitions it. Its bytes are approximate.
[[nodiscard]] Forecast forecast_program(const ResolvedPlan& plan, Diagnostics& diagnostics);

}  // namespace tpplan
