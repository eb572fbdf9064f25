// Patterns over paths, many at once: regular expressions in time linear in the path whatever they are (RE2), globs by
// an index of their texts (match/glob_index.h).
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

// A glob as a person would write it as a regular expression: `*.wq` -> `.*\.wq`.
[[nodiscard]] std::string glob_as_regex(std::string_view glob);

// Help for a key that is no regular expression: what it should be where it is a glob, `otherwise` where it is none.
[[nodiscard]] std::string regex_help(std::string_view key, std::string_view otherwise);

struct PatternSet;
struct PatternSetDeleter {
  void operator()(PatternSet* set) const;
};
using PatternSetPtr = std::unique_ptr<PatternSet, PatternSetDeleter>;

// Repetitions may stand for so many pieces of an expression more than it is written with, and what it becomes may take
// so much memory: beyond, one expression would take minutes.
inline constexpr uint64_t kMaxRepeatedPieces = 2000;
inline constexpr int64_t kMaxPatternBytes = int64_t{8} << 20;

// Compiles regular expressions (RE2's syntax). `faults[i]` is the reason why expression i cannot be compiled, or empty;
// such an expression never matches. `faults` may be nullptr where nobody is to be told.
[[nodiscard]] PatternSetPtr compile_patterns(std::span<const std::string> expressions, PatternAnchor anchor,
                                             std::vector<std::string>* faults);

// The same for globs, each over the whole text; all can be compiled.
[[nodiscard]] PatternSetPtr compile_globs(std::span<const std::string> globs);

// Indices of the expressions that match, ascending.
void find_matches(const PatternSet& set, std::string_view text, std::vector<int>& matches);

// True when any of them does.
[[nodiscard]] bool matches_any(const PatternSet& set, std::string_view text);

}  // namespace tpplan
