// What rules say of all their parameters and modules, counted from what these say each for itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "manifest/manifest.h"

namespace tpplan {

// By rule: the parameters that stand under it.
[[nodiscard]] std::vector<HeldKinds> count_held_kinds(const Manifest& manifest);

// By rule: its modules that have no parameter in or below them.
[[nodiscard]] std::vector<uint64_t> count_bare_modules(const Manifest& manifest);

// "input 0 as a local tensor, input hidden_states as a DTensor"; "no input". `side`: "input" or "output".
[[nodiscard]] std::string to_text(const std::vector<RuleValue>& values, std::string_view side);

}  // namespace tpplan
