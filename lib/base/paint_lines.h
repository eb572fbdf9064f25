// Colour for text that has its structure in its lines.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/text.h"

namespace tpplan {

// How a line looks that begins so. Of lines with a head that is what stands before two blanks; others are painted
// whole.
struct LinePaint {
  std::string_view beginning;
  std::string_view code;  // of paint(); empty: as it is
  bool head_only = false;
};

// What is at the left edge, and the name of a fact below it: `  spec      [tp, null]`.
inline constexpr LinePaint kFactPaints[] = {{" ", kBlue, true}, {"", kBold, true}};
// Headings of Markdown.
inline constexpr LinePaint kPagePaints[] = {{"#", kBold}};

// `text` as escape_lines gives it, so that no code in it is anybody else's, each line as the first row says whose
// beginning it has. Print it with the same `color`.
[[nodiscard]] std::string paint_lines(std::string_view text, std::span<const LinePaint> rows, bool color);

}  // namespace tpplan
