#include "base/paint_lines.h"

#include <algorithm>

namespace tpplan {

std::string paint_lines(std::string_view text, std::span<const LineColor> rows, bool color) {
  const std::string escaped = escape_lines(text);
  if (!color) return escaped;
  std::string out;
  for (std::string_view rest = escaped; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    const auto row = std::ranges::find_if(rows, [line](const LineColor& r) { return line.starts_with(r.beginning); });
    const size_t begin = std::min(line.find_first_not_of(' '), line.size());
    size_t stop = line.size();
    if (row != rows.end() && row->head_only) {
      // An indented line without two blanks has no colour.
      const size_t blanks = line.find("  ", begin);
      stop = blanks == std::string_view::npos ? (begin == 0 ? line.size() : begin) : blanks;
    }
    if (row == rows.end() || row->code.empty() || stop == begin)
      out += line;
    else
      out.append(line, 0, begin).append(paint(line.substr(begin, stop - begin), row->code, true)).append(line, stop);
    if (end < rest.size()) out += '\n';
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

}  // namespace tpplan
