// Rejects edits of a plan that change more than the value that they replace.
#pragma once

#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "diagnostics/text_edits.h"

namespace tpplan {

// True if the edited text is valid YAML with the same keys and values, except those that an edit replaces, each by one
// key or value. Also true if the file itself is not valid YAML: its other values are then unknown.
// @pre the edits ascend
[[nodiscard]] bool preserves_other_values(const SourceFile& file, const std::vector<TextEdit>& edits);

// Removes the edits of each diagnostic in the file whose edits do not preserve the other values.
void drop_broken_edits(const SourceFile& file, Diagnostics& diagnostics);

}  // namespace tpplan
