// Renders diagnostics as test results in JUnit's XML, which most CI systems show.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "render/render.h"

namespace tpplan {

// Returns one suite with a test case per diagnostic. An error is a failure, a warning a passing case with output.
// Each of `checks` has another case, which fails if the check fails. Without `checks` and diagnostics the suite has one
// passing case. `unchecked` (formats.h) is the output of the suite.
[[nodiscard]] std::string render_junit(const Diagnostics& diagnostics, const Sources& sources,
                                       std::string_view unchecked = {}, std::span<const CheckedPlan> checks = {});

}  // namespace tpplan
