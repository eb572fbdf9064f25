// Globs as Python's fnmatch reads them: `*` any run of characters, separators too; `?` any one; `[a-z]` one of, `[!x]`
// one not of; everything else, a `[` that is never closed too, is itself. Characters are code points.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tpplan {

// One character that is not said: any (no ranges, negated), or one of these ranges, or one of none of them.
struct GlobClass {
  std::vector<std::pair<char32_t, char32_t>> ranges;
  bool negated = false;
};

// What stands between two stars: texts, each but the first behind a character of a class.
struct GlobPiece {
  std::vector<std::string> texts = {""};  // one more than classes
  std::vector<GlobClass> classes;
};

// The first piece stands at the beginning of what is matched, the last one at its end; one piece alone is all of it.
struct Glob {
  std::vector<GlobPiece> pieces;
};

[[nodiscard]] Glob parse_glob(std::string_view glob);

// In time linear in the text where pieces have no classes: each piece is looked for behind the one before it, once.
[[nodiscard]] bool matches_glob(const Glob& glob, std::string_view text);

}  // namespace tpplan
