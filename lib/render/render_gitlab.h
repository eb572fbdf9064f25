// Diagnostics as a Code Quality report of GitLab: the part of the Code Climate format that GitLab reads.
#pragma once

#include <string>

#include "render/render.h"

namespace tpplan {

// A JSON array. GitLab insists on a path and a line: what has no place stands at line 1 of the plan.
[[nodiscard]] std::string render_gitlab(const Diagnostics& diagnostics, const Sources& sources);

}  // namespace tpplan
