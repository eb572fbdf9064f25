#include "diagnostics/text_edits.h"

#include <algorithm>

namespace tpplan {

bool entry_lines(const std::string& text, uint64_t key, TextEdit& edit) {
  const size_t line_break = key == 0 ? std::string::npos : text.rfind('\n', key - 1);
  const size_t begin = line_break == std::string::npos ? 0 : line_break + 1;
  if (text.find_first_not_of(' ', begin) != key) return false;
  size_t end = std::min(text.find('\n', key), text.size() - 1) + 1;
  while (end < text.size()) {
    const size_t next = std::min(text.find('\n', end), text.size() - 1) + 1;
    const size_t first = std::min(text.find_first_not_of(' ', end), text.size());
    if (first >= next || first - end <= key - begin) break;
    end = next;
  }
  edit.offset = begin;
  edit.length = end - begin;
  return true;
}

std::vector<TextEdit> text_edits(const SourceFile& file, const Diagnostic& diagnostic) {
  std::vector<TextEdit> edits;
  for (const Edit& edit : diagnostic.edits) {
    if (edit.span.file != file.id || edit.span.offset + edit.span.length > file.text.size()) return {};
    TextEdit& bytes = edits.emplace_back(TextEdit{edit.span.offset, edit.span.length, edit.text});
    if (edit.is_entry && !entry_lines(file.text, edit.span.offset, bytes)) return {};
  }
  std::ranges::stable_sort(edits, {}, &TextEdit::offset);
  return edits;
}

std::string apply_edits(const SourceFile& file, const Diagnostics& diagnostics) {
  std::vector<TextEdit> all;  // without overlaps
  for (const Diagnostic& d : diagnostics.list) {
    const std::vector<TextEdit> edits = text_edits(file, d);
    const bool is_free = std::ranges::none_of(edits, [&all](const TextEdit& edit) {
      return std::ranges::any_of(all, [&edit](const TextEdit& other) {
        return edit.offset <= other.offset + other.length && other.offset <= edit.offset + edit.length;
      });
    });
    if (is_free) all.insert(all.end(), edits.begin(), edits.end());
  }
  std::ranges::stable_sort(all, {}, &TextEdit::offset);
  return with_edits(file.text, all);
}

std::string with_edits(const std::string& text, const std::vector<TextEdit>& edits) {
  std::string out;
  size_t at = 0;
  for (const TextEdit& edit : edits) {
    out.append(text, at, edit.offset - at);
    out += edit.text;
    at = edit.offset + edit.length;
  }
  return out.append(text, std::min(at, text.size()));
}

}  // namespace tpplan
