#include "base/source_file.h"

#include <algorithm>

namespace tpplan {

LineColumn line_column(const SourceFile& file, size_t offset) {
  const std::string_view before = std::string_view(file.text).substr(0, std::min(offset, file.text.size()));
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 == 0: the first line
  return {.line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n')),
          .column = 1 + before.size() - line_start};
}

std::string_view line_at(const SourceFile& file, size_t offset) {
  const std::string_view text = file.text;
  offset = std::min(offset, text.size());
  const size_t begin = text.substr(0, offset).rfind('\n') + 1;
  std::string_view line = text.substr(begin, text.find('\n', offset) - begin);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace tpplan
