// What a style does, in words: from its row in the style table.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tpplan {

// What is cut, what goes in and out, what stands next to it, and who else has it under which name. `name` may be that
// of a class (`ColwiseParallel`). Absent when nobody has such a style.
[[nodiscard]] std::optional<std::string> explain_style(std::string_view name);

// The style that was probably meant, or empty.
[[nodiscard]] std::string_view nearest_style(std::string_view name);

}  // namespace tpplan
