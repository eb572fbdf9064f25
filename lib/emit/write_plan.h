// Specs -> a plan that compiles to them.
#pragma once

#include <string>

#include "emit/read_specs.h"

namespace tpplan {

// A plan in the glob dialect (schemas/plan.schema.json): the mesh, and a `spec` rule for each path. Paths that differ
// in numbers only share a rule, where its glob matches these paths and no other of the file.
std::string plan_text(const SpecsFile& specs, std::string_view format);

}  // namespace tpplan
