// Prints a manifest diff as Markdown, for a comment on a pull request or a job summary.
#pragma once

#include <string>

#include "diff/manifest_diff.h"

namespace tpplan {

// Returns the summary line as a heading, and a table for each section that differs. Long tables end with the number of
// omitted rows, so that the text fits in a comment (65,536 characters).
[[nodiscard]] std::string diff_markdown(const ManifestDiff& diff);

}  // namespace tpplan
