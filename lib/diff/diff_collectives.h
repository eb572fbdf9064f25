// Counts the collectives of two manifests.
#pragma once

#include <vector>

#include "diff/manifest_diff.h"
#include "manifest/manifest.h"

namespace tpplan {

// Returns the counts by phase, kind and axis, including equal ones.
[[nodiscard]] std::vector<CollectiveCount> diff_collectives(const Manifest& old_manifest, const Manifest& new_manifest);

}  // namespace tpplan
