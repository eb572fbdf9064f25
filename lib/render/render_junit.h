// Diagnostics as test results: JUnit's XML, which most CI systems show.
#pragma once

#include <string>
#include <string_view>

#include "render/render.h"

namespace tpplan {

// One suite with a test case for each finding: an error is a failure, a warning a case that passes and says something.
// Without findings there is one case, and it passes.
// `unchecked` (render/formats.h) is the output of the suite.
[[nodiscard]] std::string render_junit(const Diagnostics& diagnostics, const Sources& sources,
                                       std::string_view unchecked = {});

}  // namespace tpplan
