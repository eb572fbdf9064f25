// What holds of a YAML file before a parser sees it.
#pragma once

#include <cstddef>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"

namespace tpplan {

// UTF-8 without byte order mark and control characters, of `most_bytes` at most. Reports TP1002, or TP1005 at the first
// byte that is otherwise.
[[nodiscard]] bool check_text(const SourceFile& file, size_t most_bytes, Diagnostics& diagnostics);

}  // namespace tpplan
