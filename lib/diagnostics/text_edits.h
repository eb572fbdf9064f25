// What findings propose to write, as bytes of a text.
#pragma once

#include <string>
#include <vector>

#include "diagnostics/diagnostics.h"

namespace tpplan {

struct TextEdit {
  uint64_t offset = 0, length = 0;
  std::string text;
};

// The lines of a mapping's entry whose key stands at `key`: from the beginning of its first one to that of the first
// line that is no further in. False where something else stands before the key.
[[nodiscard]] bool entry_lines(const std::string& text, uint64_t key, TextEdit& edit);

// The edits of a finding in its file, ascending; none where it has none, or where they cannot be carried out: an entry
// that shares its line with others.
[[nodiscard]] std::vector<TextEdit> text_edits(const SourceFile& file, const Diagnostic& diagnostic);

// True for codes whose edits say what stood there already; others say what was probably meant.
[[nodiscard]] bool is_sure(Code code);

// The text of a file with the edits of all findings in it carried out, each finding's together or not at all: where two
// findings want the same bytes, the first has them.
[[nodiscard]] std::string apply_edits(const SourceFile& file, const Diagnostics& diagnostics);

// The text with edits carried out that ascend, none over another.
[[nodiscard]] std::string with_edits(const std::string& text, const std::vector<TextEdit>& edits);

}  // namespace tpplan
