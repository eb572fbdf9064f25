// Checks that a formatted plan equals the plan that it was made from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/tp_plan.h"
#include "text/yaml_tree.h"

namespace tpplan {

// Describes what the formatted text loses of the YAML tree, the plan (nullopt if it has errors) and the comments; empty
// if nothing.
[[nodiscard]] std::string describe_format_loss(const YamlTree& tree, const std::optional<TpPlan>& plan,
                                               const std::vector<std::string>& comments, const std::string& formatted);

}  // namespace tpplan
