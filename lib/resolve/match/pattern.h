// Sets of patterns that are matched against paths together. Regular expressions use RE2, in time linear in the path.
// Globs use an index of their literals (resolve/match/glob_index.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

enum class PatternAnchor : uint8_t { Whole, Start, Anywhere };  // Python's re.fullmatch, re.match, re.search

// Returns a glob as a regular expression, by the rules of Python's fnmatch. `*` matches any characters, including
// separators; `?` one character; `[a-z]` and `[!x]` a character class. Everything else, including an unclosed `[`, is a
// literal.
[[nodiscard]] std::string glob_to_regex(std::string_view glob);

// True if the text contains `*`, `?` or `[`.
[[nodiscard]] bool is_glob(std::string_view text);

// Returns a glob as a human-readable regular expression: `*.wq` -> `.*\.wq`.
[[nodiscard]] std::string glob_as_regex(std::string_view glob);

// Returns the help for a key that RE2 rejects with the reason `fault`. If the key looks like a glob, the help is its
// regular expression. If it uses Python syntax that RE2 does not support, the help is `otherwise`.
[[nodiscard]] std::string regex_help(std::string_view key, std::string_view fault, std::string_view otherwise);

struct PatternSet;
struct PatternSetDeleter {
  void operator()(PatternSet* set) const;
};
using PatternSetPtr = std::unique_ptr<PatternSet, PatternSetDeleter>;

// Budget of a set of expressions in RE2 instructions: a character costs 1, `\pL` 1,200, and a repetition is expanded. A
// set of this size takes 0.1 s and 40 MB to compile.
inline constexpr uint64_t kMaxPatternCost = uint64_t{1} << 18;

// Compiles regular expressions in RE2's syntax. Sets `faults[i]` to the compile error of expression i, or "". An
// expression with an error never matches, nor does any after the first one that exceeds the budget. `faults` may be
// nullptr.
[[nodiscard]] PatternSetPtr compile_patterns(std::span<const std::string> expressions, PatternAnchor anchor,
                                             std::vector<std::string>* faults, uint64_t budget = kMaxPatternCost);

// Compiles globs, each matched against the full text. Any glob is valid.
[[nodiscard]] PatternSetPtr compile_globs(std::span<const std::string> globs);

// Stores the indices of the matching expressions in `matches`, ascending.
void find_matches(const PatternSet& set, std::string_view text, std::vector<int>& matches);

// True if any expression of the set matches.
[[nodiscard]] bool matches_any(const PatternSet& set, std::string_view text);

}  // namespace tpplan
