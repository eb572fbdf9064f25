// Reads the syntax of a plan file.
#pragma once

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "plan/plan_syntax.h"
#include "text/yaml_tree.h"

namespace tpplan {

// @pre `tree` is the tree of the file, a map. Reports YAML that the formatter cannot preserve (TP1011) and returns
// false.
[[nodiscard]] bool read_plan_syntax(const SourceFile& file, const YamlTree& tree, PlanSyntax& pieces,
                                    Diagnostics& diagnostics);

}  // namespace tpplan
