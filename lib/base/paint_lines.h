// Colours lines of text by how they begin.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/text.h"

namespace tpplan {

// The colour of lines that start with `beginning`. With `head_only`, only the text before the first two blanks has the
// colour; a line without two blanks is coloured completely if it is not indented, else not at all.
struct LineColor {
  std::string_view beginning;
  std::string_view code;  // as in paint(); empty: no colour
  bool head_only = false;
};

// For lists of facts: headings are bold, the names of indented facts blue, as in `  spec      [tp, null]`.
inline constexpr LineColor kFactPaints[] = {{" ", kBlue, true}, {"", kBold, true}};
// Headings of Markdown.
inline constexpr LineColor kPagePaints[] = {{"#", kBold}};

// Returns `text` escaped by escape_lines. With `color`, each line has the colour of the first row whose `beginning` it
// starts with. Print the result with the same `color`.
[[nodiscard]] std::string paint_lines(std::string_view text, std::span<const LineColor> rows, bool color);

}  // namespace tpplan
