// Plan file -> TpPlan.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "plan/tp_plan.h"
#include "text/yaml_tree.h"

namespace tpplan {

inline constexpr std::string_view kPlanFormat = "tpplan.plan/1";

// Returns the rank of a top-level key in canonical order; after all of them for other names.
[[nodiscard]] size_t plan_key_rank(std::string_view name);

// Reads a plan file (schemas/plan.schema.json). Reports every error with its span; the plan is valid only if no error
// was reported.
[[nodiscard]] TpPlan read_plan(const SourceFile& file, const MeshSizes& mesh_sizes, Diagnostics& diagnostics);
// Reads a plan from the tree that read_yaml has returned.
[[nodiscard]] TpPlan read_plan(const SourceFile& file, const YamlTree& tree, const MeshSizes& mesh_sizes,
                               Diagnostics& diagnostics);

}  // namespace tpplan
