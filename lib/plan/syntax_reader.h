// The tokens of a plan's text, and the comments and blank lines between them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "text/yaml_tree.h"

namespace tpplan {

// The YAML tree has the structure, the text its form.
struct SyntaxReader {
  const SourceFile& file;
  const YamlTree& tree;
  Diagnostics& diagnostics;
  size_t at = 0;                      // in the text
  std::vector<std::string> comments;  // all, in file order
};

// Thrown to end reading after an error at any depth; read_plan_syntax catches it.
struct RejectedSyntax {};

[[noreturn]] void reject(SyntaxReader& in, std::string message, std::string help);
// Rejects text that the formatter does not support.
[[noreturn]] void reject_unexpected(SyntaxReader& in);

[[nodiscard]] char peek(const SyntaxReader& in, size_t ahead = 0);
// True also for the end of the file.
[[nodiscard]] bool is_blank(char c);
[[nodiscard]] size_t column_of(const SyntaxReader& in);

// Consumes the rest of the line, without trailing blanks.
[[nodiscard]] std::string take_line(SyntaxReader& in);
// Consumes an alias, an anchor or a tag, up to a blank or a bracket.
[[nodiscard]] std::string take_word(SyntaxReader& in);

struct TriviaLine {
  std::string text;  // a comment; empty for one blank line or more
  size_t column = 0;
};

// The text between two tokens.
struct Trivia {
  std::string beside;               // comment on the line of the token before
  size_t space_before_comment = 2;  // columns before it
  std::vector<TriviaLine> lines;
  std::string properties;  // "&anchor"
};

// Advances to the next token, and also skips `separators`.
[[nodiscard]] Trivia take_trivia(SyntaxReader& in, std::string_view separators = {});

// Rejects anchors and tags in a gap.
void reject_properties(SyntaxReader& in, const Trivia& gap);

}  // namespace tpplan
