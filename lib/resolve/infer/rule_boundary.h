// The inputs and outputs of a module that a rule's style and options affect, computed from the rule only. Readers of a
// manifest compare the result with that of infer_boundaries.
#pragma once

#include <optional>

#include "manifest/manifest.h"
#include "plan/tp_plan.h"

namespace tpplan {

// Returns the boundary of a rule; nullopt if it has a spec instead of a style, or no axis. Does not set `bare`.
[[nodiscard]] std::optional<RuleBoundary> boundary_of(const PlanRule& rule);

}  // namespace tpplan
