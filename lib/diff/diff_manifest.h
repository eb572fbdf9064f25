// Compares two manifests.
#pragma once

#include "diff/manifest_diff.h"

namespace tpplan {

// Compares two manifests semantically: axes and rules are compared by name, not by index. Ignores the order of
// parameters, modules and rules, the lines of rules, and the tool's version. Changed inputs are listed but do not
// count.
[[nodiscard]] ManifestDiff diff_manifests(const Manifest& old_manifest, const Manifest& new_manifest);

}  // namespace tpplan
