// The report's section of parameters that every rank holds whole.
#pragma once

#include <string>

#include "manifest/manifest.h"

namespace tpplan {

// The largest patterns first.
[[nodiscard]] std::string replicated_html(const Manifest& manifest);

}  // namespace tpplan
