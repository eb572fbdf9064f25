// Diagnostics as annotations of a GitHub Actions run: workflow commands on standard output.
#pragma once

#include <string>

#include "render/render.h"

namespace tpplan {

// `::error file=,line=,col=,endColumn=,title=::message`, errors first. GitHub shows ten errors and ten warnings of a
// step: what is beyond stands as plain text in a group of the log, and a notice counts it.
[[nodiscard]] std::string render_github(const Diagnostics& diagnostics, const Sources& sources);

}  // namespace tpplan
