// Converts between byte offsets and positions of the Language Server Protocol: lines and UTF-16 code units, from 0.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace tpplan {

struct EditorPosition {
  size_t line = 0, character = 0;
};

// A text with the offset of the beginning of each line. Lines end with "\n", "\r\n" or a single "\r".
struct TextLines {
  std::string_view text;
  std::vector<size_t> begins;
};
[[nodiscard]] TextLines lines_of(std::string_view text);

// Returns a line without its line break.
[[nodiscard]] std::string_view line_text(const TextLines& lines, size_t line);

// Returns the position of a byte. Rounds down to the beginning of a character, to the end of the line inside a line
// break, and to the end of the text.
[[nodiscard]] EditorPosition position_of(const TextLines& lines, size_t offset);

// Returns the byte offset of a position. Rounds down to the end of the line or of the text, and to the beginning of a
// surrogate pair.
[[nodiscard]] size_t offset_of(const TextLines& lines, EditorPosition position);

}  // namespace tpplan
