// Renders diagnostics as a Code Quality report of GitLab: the subset of the Code Climate format that GitLab reads.
#pragma once

#include <string>

#include "render/render.h"

namespace tpplan {

// Returns a JSON array. GitLab requires a path and a line, so a diagnostic without a location is at line 1 of the plan.
[[nodiscard]] std::string render_gitlab(const Diagnostics& diagnostics, const Sources& sources);

}  // namespace tpplan
