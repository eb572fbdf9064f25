// The text of an input file, and places in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tpplan {

// The index of a command's input file: 1 for the first that it opened.
using FileId = uint16_t;
inline constexpr FileId kNoFile = 0;

// An input in memory. `name` is for diagnostics: the path as the user wrote it, `<stdin>` for `-`. Phases keep views
// into `text`, so a SourceFile must outlive their results. Readers put `id` into the spans of their diagnostics, and
// renderers find the file by it (render/render.h).
struct SourceFile {
  std::string name;
  std::string text;
  FileId id = 1;  // set by a caller that opens several files
};

// 1-based line and 1-based column in bytes, as editors and problem matchers count.
struct LineColumn {
  size_t line = 1;
  size_t column = 1;
};

// Returns the place of byte `offset`; that after the last byte for an offset past the end. O(offset), because it is
// needed only to render diagnostics.
[[nodiscard]] LineColumn line_column(const SourceFile& file, size_t offset);

// Returns the line that contains byte `offset`, without its line break ("\n" or "\r\n").
[[nodiscard]] std::string_view line_at(const SourceFile& file, size_t offset);

}  // namespace tpplan
