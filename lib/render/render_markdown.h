// Findings in Markdown, for a comment on a pull request or the summary of a job.
#pragma once

#include <string>
#include <string_view>

#include "render/render.h"

namespace tpplan {

// A heading with the counts, and a table with a row for each finding: severity, code, place, and all that it says;
// `unchecked` behind it (render/formats.h).
[[nodiscard]] std::string render_markdown(const Diagnostics& diagnostics, const Sources& sources,
                                          std::string_view unchecked = {});

}  // namespace tpplan
