// Names under which code knows the styles.
#pragma once

#include <string_view>

namespace tpplan {

// The style of a class as it stands in code ("ColwiseParallel", "parallel.RowwiseParallel()"), or of a word for it
// ("column"); empty when it is none.
[[nodiscard]] std::string_view style_of_class(std::string_view text);

// torch's class for a style, or empty.
[[nodiscard]] std::string_view class_of_style(std::string_view style);

}  // namespace tpplan
