// Prints a manifest diff as human-readable text.
#pragma once

#include <string>

#include "base/paint_lines.h"
#include "diff/manifest_diff.h"

namespace tpplan {

// Returns a one-line summary, with a note if the inputs differ.
[[nodiscard]] std::string diff_summary(const ManifestDiff& diff);

// Returns the differences by section; empty for equal manifests. Names are escaped for a terminal.
[[nodiscard]] std::string diff_text(const ManifestDiff& diff);

// Colours of the lines by prefix: added, removed, changed.
inline constexpr LineColor kDiffColors[] = {
    {"  + ", kGreen}, {"  - ", kRed}, {"  ~ ", kYellow}, {" ", {}}, {"", kBold}};

}  // namespace tpplan
