// A unified diff of two texts, as `diff -u` writes and patch(1) applies it.
#pragma once

#include <string>
#include <string_view>

namespace tpplan {

// Returns hunks with three lines of context after `--- old_name` and `+++ new_name`; empty for equal texts. If more
// than some thousand lines differ, everything between the common begin and end is one hunk.
[[nodiscard]] std::string unified_diff(std::string_view old_name, std::string_view new_name, std::string_view old_text,
                                       std::string_view new_text);

}  // namespace tpplan
