// Rules of two manifests: which come, go, match another number of paths, or have another name.
#pragma once

#include <cstdint>
#include <vector>

#include "manifest/diff_manifest.h"
#include "manifest/manifest.h"

namespace tpplan {

// Of each rule of the old manifest the number of the one in the new manifest that decides over the same parameters,
// buffers and modules under a name that the old one does not have; kNotRenamed for others. What only one of the
// manifests has is not asked.
inline constexpr uint32_t kNotRenamed = 0xffffffffu;
using RenamedRules = std::vector<uint32_t>;
[[nodiscard]] RenamedRules find_renamed_rules(const Manifest& old_manifest, const Manifest& new_manifest);

// Rules that differ, in file order, those that are gone at the end.
[[nodiscard]] std::vector<RuleChange> diff_rules(const Manifest& old_manifest, const Manifest& new_manifest,
                                                 const RenamedRules& renamed);

}  // namespace tpplan
