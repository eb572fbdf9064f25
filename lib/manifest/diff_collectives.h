// How often each collective stands in two manifests.
#pragma once

#include <vector>

#include "manifest/diff_manifest.h"
#include "manifest/manifest.h"

namespace tpplan {

// By phase, kind and axis; those whose counts are equal, too.
[[nodiscard]] std::vector<CollectiveCount> diff_collectives(const Manifest& old_manifest, const Manifest& new_manifest);

}  // namespace tpplan
