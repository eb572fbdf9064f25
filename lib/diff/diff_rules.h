// Compares rules of two manifests: added, removed and renamed rules, and rules with another number of matches.
#pragma once

#include <cstdint>
#include <vector>

#include "diff/manifest_diff.h"
#include "manifest/manifest.h"

namespace tpplan {

// For each old rule, the index of the new rule that applies to the same parameters, buffers and modules under a new
// name; kNotRenamed for all others. Only parameters, buffers and modules of both manifests are compared.
inline constexpr uint32_t kNotRenamed = 0xffffffffu;
using RenamedRules = std::vector<uint32_t>;
[[nodiscard]] RenamedRules find_renamed_rules(const Manifest& old_manifest, const Manifest& new_manifest);

// Returns the rules that differ, in file order, with removed rules at the end.
[[nodiscard]] std::vector<RuleChange> diff_rules(const Manifest& old_manifest, const Manifest& new_manifest,
                                                 const RenamedRules& renamed);

}  // namespace tpplan
