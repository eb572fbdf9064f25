// Converts documents to trees and back.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "mutate_tree.h"

namespace tpplan {

// Returns nullopt if the text is not a document of this format, or has more than 20,000 values or 64 levels.
[[nodiscard]] std::optional<TreeNode> tree_of_json(std::string_view text);
[[nodiscard]] std::optional<TreeNode> tree_of_yaml(std::string_view text);

// `chance(n)` is true one time in n; it selects between equivalent notations.
using Chance = std::function<bool(unsigned)>;
[[nodiscard]] std::string json_of(const TreeNode& tree, const Chance& chance);
[[nodiscard]] std::string yaml_of(const TreeNode& tree, const Chance& chance);

}  // namespace tpplan
