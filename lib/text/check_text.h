// Checks the bytes of a YAML file before it is parsed.
#pragma once

#include <cstddef>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"

namespace tpplan {

// True if the file is UTF-8 without byte order mark and control characters, and at most `most_bytes` long. Reports
// TP1002 if it is too long, and TP1005 at the first invalid byte.
[[nodiscard]] bool check_text(const SourceFile& file, size_t most_bytes, Diagnostics& diagnostics);

}  // namespace tpplan
