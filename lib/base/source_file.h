// An input file's text, and the places in it that diagnostics name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tpplan {

// Which of a command's inputs a place is in: 1 for the one that it opened first.
using FileId = uint16_t;
inline constexpr FileId kNoFile = 0;

// A whole input in memory. `name` is what diagnostics print: the path as the user wrote it, `<stdin>` for `-`.
// Phases keep views into `text`, so a SourceFile outlives every product that is made from it. What reads it puts `id`
// into the places of its findings; who shows them knows files by it (render/render.h).
struct SourceFile {
  std::string name;
  std::string text;
  FileId id = 1;  // who opens several numbers them
};

// 1-based line and 1-based column in bytes, as editors and problem matchers count.
struct LineColumn {
  size_t line = 1;
  size_t column = 1;
};

// The place of byte `offset`; an offset past the end is the place right after the last byte. O(offset): asked only
// while a diagnostic is rendered, so that the good path pays nothing for places.
[[nodiscard]] LineColumn line_column(const SourceFile& file, size_t offset);

// The line that holds byte `offset`, without its line break ("\n" or "\r\n").
[[nodiscard]] std::string_view line_at(const SourceFile& file, size_t offset);

}  // namespace tpplan
