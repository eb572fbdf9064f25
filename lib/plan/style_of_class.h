// Names under which code knows the styles.
#pragma once

#include <string_view>

namespace tpplan {

// The style of one of torch's classes as it stands in code ("ColwiseParallel", "parallel.RowwiseParallel()"); empty
// when it is none.
[[nodiscard]] std::string_view style_of_class(std::string_view text);

}  // namespace tpplan
