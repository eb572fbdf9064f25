// Keys and paths as the parts between separators, comparable across notations.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/model_graph.h"

namespace tpplan {

// Returns `*` for a part that is a number, and "layer_*" for Keras' "layer_12"; other parts unchanged.
[[nodiscard]] std::string without_number(std::string_view part, Framework framework);

// Returns the parts of a key in any notation. Accepts all separators, unescapes regular expressions and drops invisible
// characters.
[[nodiscard]] std::vector<std::string> parts_of_key(std::string_view key, Framework framework);

// Returns a name in lowercase without word separators.
[[nodiscard]] std::string fold_name(std::string_view name);

// True if two leaf names mean the same layer or parameter in different model families or frameworks.
[[nodiscard]] bool is_same_leaf(std::string_view a, std::string_view b);

}  // namespace tpplan
