// Two texts as a unified diff, as `diff -u` writes it and patch(1) applies it.
#pragma once

#include <string>
#include <string_view>

namespace tpplan {

// Hunks with three lines of context under `--- old_name` and `+++ new_name`; empty for equal texts. Texts that differ
// in more than some thousand lines come as one hunk between their common ends, which is longer than need be.
[[nodiscard]] std::string unified_diff(std::string_view old_name, std::string_view new_name, std::string_view old_text,
                                       std::string_view new_text);

}  // namespace tpplan
