// The difference of two manifests as Markdown, for a comment on a pull request or the summary of a job.
#pragma once

#include <string>

#include "manifest/diff_manifest.h"

namespace tpplan {

// The line that says it all as a heading, and a table for each section that differs. It fits in a comment (65,536
// characters) whatever differs: of what is too much the first rows stand there, and how many more there are.
[[nodiscard]] std::string diff_markdown(const ManifestDiff& diff);

}  // namespace tpplan
