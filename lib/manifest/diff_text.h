// The difference of two manifests for people.
#pragma once

#include <string>

#include "manifest/diff_manifest.h"

namespace tpplan {

// One line that says it all, with a note when the inputs differ.
[[nodiscard]] std::string diff_summary(const ManifestDiff& diff);

// What differs, section by section; empty for manifests that say the same. Names are escaped for a terminal.
[[nodiscard]] std::string diff_text(const ManifestDiff& diff);

}  // namespace tpplan
