// Computes the summary fields of rules from their parameters and modules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "manifest/manifest.h"

namespace tpplan {

// Returns the number of parameters of each rule, by kind.
[[nodiscard]] std::vector<KindCounts> count_module_kinds(const Manifest& manifest);

// Returns for each rule the number of its modules without parameters in or below them. Searches only modules whose flag
// in `has_params` is not set, or all modules if it is empty.
[[nodiscard]] std::vector<uint64_t> count_empty_modules(const Manifest& manifest, const ManifestPaths& paths,
                                                        const std::vector<bool>& has_params = {});

// Returns text such as "input 0 as a local tensor, input hidden_states as a DTensor" or "no input". `side` is "input"
// or "output".
[[nodiscard]] std::string to_text(const std::vector<RuleValue>& values, std::string_view side);

}  // namespace tpplan
