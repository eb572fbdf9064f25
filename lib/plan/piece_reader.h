// What the reading of a plan's pieces goes through: the text of the file, token by token, and what stands between two
// of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "syntax/yaml_tree.h"

namespace tpplan {

// The YAML tree says what comes, the text how it is written.
struct PieceReader {
  const SourceFile& file;
  const YamlTree& tree;
  Diagnostics& diagnostics;
  size_t at = 0;                      // in the text
  std::vector<std::string> comments;  // all, in file order
};

// Ends the reading after a refusal, through any depth; read_pieces catches it.
struct Refused {};

[[noreturn]] void refuse(PieceReader& in, std::string message, std::string help);
// At text that is no part of a plan as the formatter knows them.
[[noreturn]] void refuse_unexpected(PieceReader& in);

[[nodiscard]] char peek(const PieceReader& in, size_t ahead = 0);
// The end of the file counts as well.
[[nodiscard]] bool is_blank(char c);
[[nodiscard]] size_t column_of(const PieceReader& in);

// The rest of the line without blanks at its end.
[[nodiscard]] std::string take_line(PieceReader& in);
// An alias, an anchor or a tag: up to a blank or a bracket.
[[nodiscard]] std::string take_word(PieceReader& in);

struct GapLine {
  std::string text;  // a comment; empty for one blank line or more
  size_t column = 0;
};

// What stands between two tokens.
struct Gap {
  std::string beside;       // comment on the line of the token before
  size_t beside_space = 2;  // columns before it
  std::vector<GapLine> lines;
  std::string properties;  // "&anchor"
};

// Goes on to the next token. `separators` are skipped as well.
[[nodiscard]] Gap take_gap(PieceReader& in, std::string_view separators = {});

// Refuses a gap with anchors or tags.
void no_properties(PieceReader& in, const Gap& gap);

}  // namespace tpplan
