// Findings in Markdown, for a comment on a pull request or the summary of a job.
#pragma once

#include <string>

#include "render/render.h"

namespace tpplan {

// A heading with the counts, and a table with a row for each finding: severity, code, place, and all that it says.
[[nodiscard]] std::string render_markdown(const Diagnostics& diagnostics, const Sources& sources);

}  // namespace tpplan
