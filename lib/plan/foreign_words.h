// Keys and words of other tools, and their equivalents in a plan.
#pragma once

#include <string_view>

namespace tpplan {

// Returns the help for a key or word of another tool in a place (`where`, as in messages: "the plan", "a rule",
// "`loss`",
// "`dialect`"); empty if the word is unknown.
[[nodiscard]] std::string_view foreign_word_help(std::string_view where, std::string_view word);

// Returns the word of a plan that replaces a foreign word one to one; empty if there is none.
[[nodiscard]] std::string_view equivalent_word(std::string_view where, std::string_view word);

}  // namespace tpplan
