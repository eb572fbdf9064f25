// Globs with the rules of Python's fnmatch. `*` matches any characters, including separators; `?` one character;
// `[a-z]` and `[!x]` a character class. Everything else, including an unclosed `[`, is a literal. A character is a code
// point.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpplan {

// A character class: any character (no ranges, negated), one inside the ranges, or one outside of them (negated).
struct GlobClass {
  std::vector<std::pair<char32_t, char32_t>> ranges;
  bool negated = false;
};

// A part of a glob between two stars: literals, with one class between each two.
struct GlobToken {
  std::vector<std::string> texts = {""};  // one more than classes
  std::vector<GlobClass> classes;
};

// A parsed glob. The first token matches at the start of the text and the last one at its end; a single token matches
// the full text.
struct Glob {
  std::vector<GlobToken> tokens;
};

[[nodiscard]] Glob parse_glob(std::string_view glob);

// Returns the glob that matches `name` and nothing else: `[[]a]` for `[a]`.
[[nodiscard]] std::string glob_of_name(std::string_view name);

// Returns the name from which glob_of_name made a glob. Stars remain.
[[nodiscard]] std::string name_of_glob(std::string_view glob);

// True if the glob matches the full text. Searches each token once, after the preceding one, so the time is linear in
// the text if tokens have no classes.
[[nodiscard]] bool matches_glob(const Glob& glob, std::string_view text);

}  // namespace tpplan
