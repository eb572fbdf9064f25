// Parameters, buffers and modules of two manifests, found by their paths and grouped by what changed.
#pragma once

#include <vector>

#include "manifest/diff_manifest.h"
#include "manifest/diff_rules.h"
#include "manifest/manifest.h"

namespace tpplan {

// Of parameters, or of buffers.
[[nodiscard]] ListDiff diff_params(const Manifest& old_manifest, const std::vector<ManifestParam>& before,
                                   const Manifest& new_manifest, const std::vector<ManifestParam>& after,
                                   const RenamedRules& renamed);
[[nodiscard]] ListDiff diff_modules(const Manifest& old_manifest, const Manifest& new_manifest,
                                    const RenamedRules& renamed);

}  // namespace tpplan
