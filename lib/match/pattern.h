// Patterns over paths: many at once, in time linear in the path whatever the patterns (RE2).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpplan {

enum class PatternAnchor : uint8_t { Whole, Start, Anywhere };  // Python's re.fullmatch, re.match, re.search

// A glob as a regular expression: `*` any run of characters, separators too; `?` any one; `[a-z]` one of, `[!x]` one
// not of; everything else, a `[` that is never closed too, is itself. The rules of Python's fnmatch.
[[nodiscard]] std::string glob_to_regex(std::string_view glob);

// True when the text has `*`, `?` or `[` in it: not a name of its own.
[[nodiscard]] bool is_glob(std::string_view text);

struct PatternSet;
struct PatternSetDeleter {
  void operator()(PatternSet* set) const;
};
using PatternSetPtr = std::unique_ptr<PatternSet, PatternSetDeleter>;

// Compiles regular expressions (RE2's syntax). `faults[i]` is the reason why expression i cannot be compiled, or empty;
// such an expression never matches. `faults` may be nullptr for expressions known to be good.
[[nodiscard]] PatternSetPtr compile_patterns(std::span<const std::string> expressions, PatternAnchor anchor,
                                             std::vector<std::string>* faults);

// Indices of the expressions that match, ascending.
void find_matches(const PatternSet& set, std::string_view text, std::vector<int>& matches);

// True when any of them does.
[[nodiscard]] bool matches_any(const PatternSet& set, std::string_view text);

}  // namespace tpplan
