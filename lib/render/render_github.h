// Renders diagnostics as annotations of GitHub Actions: workflow commands for standard output.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "render/render.h"

namespace tpplan {

// Returns one line `::error file=,line=,col=,endColumn=,title=::message` per diagnostic, errors first. GitHub shows ten
// errors and ten warnings of a step. Further diagnostics are plain text in a log group, and a notice counts them.
// A non-empty `unchecked` (formats.h) is another notice. Each of `checks` is a line of the log.
[[nodiscard]] std::string render_github(const Diagnostics& diagnostics, const Sources& sources,
                                        std::string_view unchecked = {}, std::span<const CheckedPlan> checks = {});

}  // namespace tpplan
