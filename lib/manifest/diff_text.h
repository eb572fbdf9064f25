// The difference of two manifests for people.
#pragma once

#include <string>

#include "base/paint_lines.h"
#include "manifest/diff_manifest.h"

namespace tpplan {

// One line that says it all, with a note when the inputs differ.
[[nodiscard]] std::string diff_summary(const ManifestDiff& diff);

// What differs, section by section; empty for manifests that say the same. Names are escaped for a terminal.
[[nodiscard]] std::string diff_text(const ManifestDiff& diff);

// How the lines of both look: what comes, what goes, what is another.
inline constexpr LinePaint kDiffPaints[] = {
    {"  + ", kGreen}, {"  - ", kRed}, {"  ~ ", kYellow}, {" ", {}}, {"", kBold}};

}  // namespace tpplan
