// Converts paths of layers to one pattern.
#pragma once

#include <string>
#include <string_view>

namespace tpplan {

// Returns the path with `*` for every part between separators (`.` and `/`) that is a number:
// "layers.12.norm.weight" -> "layers.*.norm.weight".
[[nodiscard]] std::string starred_path(std::string_view path);

}  // namespace tpplan
