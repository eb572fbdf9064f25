// Paths of all layers as one pattern.
#pragma once

#include <string>
#include <string_view>

namespace tpplan {

// "layers.12.norm.weight" -> "layers.*.norm.weight": every number that stands alone between separators (`.` and `/`) as
// `*`.
[[nodiscard]] std::string path_pattern(std::string_view path);

}  // namespace tpplan
