// Diagnostics as annotations of a GitHub Actions run: workflow commands on standard output.
#pragma once

#include <string>
#include <string_view>

#include "render/render.h"

namespace tpplan {

// `::error file=,line=,col=,endColumn=,title=::message`, errors first. GitHub shows ten errors and ten warnings of a
// step: what is beyond stands as plain text in a group of the log, and a notice counts it. Another one
// is `unchecked`, where that is a sentence (of render/formats.h).
[[nodiscard]] std::string render_github(const Diagnostics& diagnostics, const Sources& sources,
                                        std::string_view unchecked = {});

}  // namespace tpplan
