#include "editor/positions.h"

#include <algorithm>

#include "base/text.h"

namespace tpplan {
namespace {

// Returns the length of the first character in bytes; 1 for invalid UTF-8.
size_t character_bytes(std::string_view text) { return std::max<size_t>(utf8_length(text), 1); }

// Returns the UTF-16 code units of a character of UTF-8. Four bytes mean a surrogate pair.
size_t units_of(size_t bytes) { return bytes == 4 ? 2 : 1; }

}  // namespace

TextLines lines_of(std::string_view text) {
  TextLines lines{.text = text, .begins = {0}};
  for (size_t at = text.find_first_of("\r\n"); at != std::string_view::npos; at = text.find_first_of("\r\n", at)) {
    at += text.substr(at, 2) == "\r\n" ? 2 : 1;
    lines.begins.push_back(at);
  }
  return lines;
}

std::string_view line_text(const TextLines& lines, size_t line) {
  const size_t begin = lines.begins[line];
  const std::string_view rest = lines.text.substr(begin);
  return rest.substr(0, rest.find_first_of("\r\n"));
}

EditorPosition position_of(const TextLines& lines, size_t offset) {
  const auto behind = std::upper_bound(lines.begins.begin(), lines.begins.end(), offset);
  const auto line = static_cast<size_t>(behind - lines.begins.begin()) - 1;
  std::string_view rest = line_text(lines, line);
  size_t left = std::min(offset - lines.begins[line], rest.size()), character = 0;
  while (left > 0) {
    const size_t bytes = character_bytes(rest);
    if (bytes > left) break;
    character += units_of(bytes);
    rest.remove_prefix(bytes);
    left -= bytes;
  }
  return {line, character};
}

size_t offset_of(const TextLines& lines, EditorPosition position) {
  if (position.line >= lines.begins.size()) return lines.text.size();
  std::string_view rest = line_text(lines, position.line);
  size_t offset = lines.begins[position.line];
  for (size_t left = position.character; left > 0 && !rest.empty();) {
    const size_t bytes = character_bytes(rest);
    if (units_of(bytes) > left) break;
    left -= units_of(bytes);
    offset += bytes;
    rest.remove_prefix(bytes);
  }
  return offset;
}

}  // namespace tpplan
