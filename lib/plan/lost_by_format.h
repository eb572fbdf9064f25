// The proof that a formatted plan is the plan that it was made from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/tp_plan.h"
#include "syntax/yaml_tree.h"

namespace tpplan {

// What the formatted text would lose of a tree, a plan (absent: it has errors) and comments; empty when it loses
// nothing.
[[nodiscard]] std::string lost_by_format(const YamlTree& tree, const std::optional<TpPlan>& plan,
                                         const std::vector<std::string>& comments, const std::string& formatted);

}  // namespace tpplan
