// Diagnostics for code scanning: SARIF 2.1.0 (OASIS, errata 01).
#pragma once

#include <string>
#include <string_view>

#include "render/render.h"

namespace tpplan {

// The page that explains a code (Markdown), or nullptr.
using PageOfCode = const char* (*)(std::string_view code);

// One run of `tool` (name and version) with a rule for every code. Columns count code points.
// `unchecked` (render/formats.h) is a notification of the run.
[[nodiscard]] std::string render_sarif(const Diagnostics& diagnostics, const Sources& sources, std::string_view tool,
                                       PageOfCode page, std::string_view unchecked = {});

}  // namespace tpplan
