// Explains a style from its row in the style table.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tpplan {

// Returns the explanation of a style: what it shards, its input and output, the styles next to it, and its names in
// other tools. `name` can be a class (`ColwiseParallel`). nullopt if there is no such style.
[[nodiscard]] std::optional<std::string> explain_style(std::string_view name);

// Returns the style with the nearest name, or an empty text.
[[nodiscard]] std::string_view nearest_style(std::string_view name);

}  // namespace tpplan
