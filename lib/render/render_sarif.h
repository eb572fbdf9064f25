// Renders diagnostics as SARIF 2.1.0 (OASIS, errata 01), for code scanning.
#pragma once

#include <string>
#include <string_view>

#include "render/render.h"

namespace tpplan {

// Returns the Markdown page that explains a code, or nullptr.
using PageOfCode = const char* (*)(std::string_view code);

// Returns one SARIF run of `tool` (name and version) with a rule for every code that occurs. Columns count code points.
// `unchecked` (formats.h) is a notification of the run.
[[nodiscard]] std::string render_sarif(const Diagnostics& diagnostics, const Sources& sources, std::string_view tool,
                                       PageOfCode page, std::string_view unchecked = {});

}  // namespace tpplan
