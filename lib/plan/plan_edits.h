// Edits of a plan that change what they name, and nothing else.
#pragma once

#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "diagnostics/text_edits.h"

namespace tpplan {

// True if the edited text can be read and every key and value that no edit replaces is there as before. A replaced key
// is one key again, a replaced value one value. The edits ascend. A file that cannot be read keeps no edit back: what a
// mistake of YAML hides is unknown.
[[nodiscard]] bool preserves_other_values(const SourceFile& file, const std::vector<TextEdit>& edits);

// Takes away the edits of every finding in the file for which preserves_other_values does not hold.
void drop_broken_edits(const SourceFile& file, Diagnostics& diagnostics);

}  // namespace tpplan
