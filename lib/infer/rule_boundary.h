// What a rule's style and options do to the values of its modules, whatever surrounds them: which they touch, and how
// these go on. Said of the rule alone, apart from infer_boundaries, to which readers of a manifest hold it.
#pragma once

#include <optional>

#include "manifest/manifest.h"
#include "plan/tp_plan.h"

namespace tpplan {

// Nothing of a spec, nor of a style that leaves all whole and has no axis. `bare` is left 0.
[[nodiscard]] std::optional<RuleBoundary> boundary_of(const PlanRule& rule);

}  // namespace tpplan
