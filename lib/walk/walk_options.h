// Options of a walk.
#pragma once

#include <optional>
#include <vector>

#include "plan/dialects.h"
#include "resolve/infer/walked_gradients.h"

namespace tpplan {

struct WalkOptions {
  std::optional<PlanRuntime> runtime;                // absent: the runtime of the plan's dialect
  bool infer = false;                                // without a backward pass
  bool listing = false;                              // writes Forecast::listing
  bool examples = false;                             // writes Forecast::examples
  bool trace = false;                                // writes Forecast::trace
  std::vector<WalkedGradient>* gradients = nullptr;  // receives the gradients of boundaries; nullptr: not requested
  // Receives declared layouts that DTensors override; nullptr: not requested.
  std::vector<WalkedPlacement>* placements = nullptr;
};

}  // namespace tpplan
