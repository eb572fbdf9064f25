// Colours for text by the beginnings of its lines.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/text.h"

namespace tpplan {

// The colour of lines with this beginning: of the head before two blanks if the line has one, else of the full line.
struct LinePaint {
  std::string_view beginning;
  std::string_view code;  // of paint(); empty: as it is
  bool head_only = false;
};

// What is at the left edge, and the name of a fact below it: `  spec      [tp, null]`.
inline constexpr LinePaint kFactPaints[] = {{" ", kBlue, true}, {"", kBold, true}};
// Headings of Markdown.
inline constexpr LinePaint kPagePaints[] = {{"#", kBold}};

// Returns `text` escaped by escape_lines, with each line in the colour of the first row whose beginning it has. Print
// it with the same `color`.
[[nodiscard]] std::string paint_lines(std::string_view text, std::span<const LinePaint> rows, bool color);

}  // namespace tpplan
