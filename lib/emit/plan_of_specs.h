// Specs -> a plan that compiles to them.
#pragma once

#include "emit/read_specs.h"
#include "plan/tp_plan.h"

namespace tpplan {

// A plan in the glob dialect: the mesh, and a spec for each path. Paths that differ in numbers only share a rule, where
// its glob matches these paths and no other of the file.
[[nodiscard]] TpPlan plan_of_specs(const SpecsFile& specs);

}  // namespace tpplan
