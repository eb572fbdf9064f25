// Plan file -> TpPlan.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "plan/tp_plan.h"
#include "syntax/yaml_tree.h"

namespace tpplan {

inline constexpr std::string_view kPlanFormat = "tpplan.plan/1";

// The place of a key of a plan's top level in the order in which keys are written; behind all of them for other names.
[[nodiscard]] size_t plan_key_rank(std::string_view name);

// Axis sizes from the command line, which replace those in the file, and are the mesh of a file that has none.
using MeshSizes = std::vector<std::pair<std::string, int64_t>>;

// Reads a plan file (schemas/plan.schema.json). Reports every fault with its place; the plan is only meaningful when no
// error was reported.
[[nodiscard]] TpPlan read_plan(const SourceFile& file, const MeshSizes& mesh_sizes, Diagnostics& diagnostics);
// The same of a file that read_yaml has read.
[[nodiscard]] TpPlan read_plan(const SourceFile& file, const YamlTree& tree, const MeshSizes& mesh_sizes,
                               Diagnostics& diagnostics);

}  // namespace tpplan
