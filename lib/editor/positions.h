// Places in a text as the Language Server Protocol counts them: lines and units of UTF-16, from 0.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace tpplan {

struct EditorPosition {
  size_t line = 0, character = 0;
};

// A text with the offset at which each of its lines begins: behind "\n", "\r\n" and a "\r" that stands alone.
struct TextLines {
  std::string_view text;
  std::vector<size_t> begins;
};
[[nodiscard]] TextLines lines_of(std::string_view text);

// The line without its line break.
[[nodiscard]] std::string_view line_text(const TextLines& lines, size_t line);

// Of a byte: inside a character its beginning, inside a line break the end of the line, behind the text its end.
[[nodiscard]] EditorPosition position_of(const TextLines& lines, size_t offset);

// The other way: behind a line its end, behind the last line the end of the text, inside a pair of surrogates its
// first.
[[nodiscard]] size_t offset_of(const TextLines& lines, EditorPosition position);

}  // namespace tpplan
