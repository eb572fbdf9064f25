// Class names and words of other tools for styles.
#pragma once

#include <string_view>

namespace tpplan {

// Returns the style of a class in code ("ColwiseParallel", "parallel.RowwiseParallel()") or of a word for it
// ("column"); empty if there is none.
[[nodiscard]] std::string_view style_of_class(std::string_view text);

// Returns what replaces a style of transformers 4 in transformers 5, as a text; empty for other names.
[[nodiscard]] std::string_view successor_of_style(std::string_view name);

}  // namespace tpplan
