// Applies the edits of diagnostics to a text.
#pragma once

#include <string>
#include <vector>

#include "diagnostics/diagnostics.h"

namespace tpplan {

struct TextEdit {
  uint64_t offset = 0, length = 0;
  std::string text;
};

// Sets `edit` to the lines of the mapping entry whose key is at `key`. They end before the next line that is not
// indented deeper. Returns false if the key is not the first text of its line.
[[nodiscard]] bool entry_lines(const std::string& text, uint64_t key, TextEdit& edit);

// Returns the edits of a diagnostic, sorted by offset. Empty if one of them cannot be applied: it is in another file,
// or its entry shares a line with others.
[[nodiscard]] std::vector<TextEdit> text_edits(const SourceFile& file, const Diagnostic& diagnostic);

// Returns the text of a file with the edits of all diagnostics. The edits of a diagnostic are applied together, or
// skipped if they overlap or touch those of an earlier diagnostic.
[[nodiscard]] std::string apply_edits(const SourceFile& file, const Diagnostics& diagnostics);

// Returns the text with the edits applied. @pre `edits` are sorted by offset and do not overlap.
[[nodiscard]] std::string with_edits(const std::string& text, const std::vector<TextEdit>& edits);

}  // namespace tpplan
