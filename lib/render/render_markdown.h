// Renders diagnostics as Markdown, for a comment on a pull request or the summary of a job.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "render/render.h"

namespace tpplan {

// Returns a heading with the counts, a table with one row per diagnostic (severity, code, location, full text), and
// `unchecked` (formats.h). A second table has one row for each of `checks`.
[[nodiscard]] std::string render_markdown(const Diagnostics& diagnostics, const Sources& sources,
                                          std::string_view unchecked = {}, std::span<const CheckedPlan> checks = {});

}  // namespace tpplan
