// Compares parameters, buffers and modules of two manifests by path, and groups them by their changes.
#pragma once

#include <vector>

#include "diff/diff_rules.h"
#include "diff/manifest_diff.h"
#include "manifest/manifest.h"

namespace tpplan {

// Compares two lists of parameters, or of buffers.
[[nodiscard]] ListDiff diff_params(const Manifest& old_manifest, const std::vector<ManifestParam>& before,
                                   const Manifest& new_manifest, const std::vector<ManifestParam>& after,
                                   const RenamedRules& renamed);
[[nodiscard]] ListDiff diff_modules(const Manifest& old_manifest, const Manifest& new_manifest,
                                    const RenamedRules& renamed);

}  // namespace tpplan
