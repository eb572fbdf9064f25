// The report's section of fully replicated parameters.
#pragma once

#include <string>

#include "manifest/manifest.h"

namespace tpplan {

// Returns the section, with the largest patterns first.
[[nodiscard]] std::string replicated_html(const Manifest& manifest);

}  // namespace tpplan
