// Converts specs to a plan that compiles to them.
#pragma once

#include "emit/read_specs.h"
#include "plan/tp_plan.h"

namespace tpplan {

// Returns a plan in the glob dialect with the mesh and a spec for each path. Paths that differ only in numbers share a
// rule if its glob matches no other path of the file.
[[nodiscard]] TpPlan plan_from_specs(const SpecsFile& specs);

}  // namespace tpplan
