// What other tools call what a plan has: their keys, and what stands in their place here.
#pragma once

#include <string_view>

namespace tpplan {

// What to write for a key or a word that another tool has in this place (`where`, as messages call it: "the plan",
// "a rule", "`loss`", "`dialect`"); empty where none is known to have it.
[[nodiscard]] std::string_view foreign_word_help(std::string_view where, std::string_view word);

// The same for words that a plan has under another name, which can be written in their place; empty otherwise.
[[nodiscard]] std::string_view own_word(std::string_view where, std::string_view word);

}  // namespace tpplan
