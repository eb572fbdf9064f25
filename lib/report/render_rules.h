// The report's section of rules: the parameters and modules of each rule of the plan.
#pragma once

#include <string>

#include "manifest/manifest.h"

namespace tpplan {

// Returns the section. It lists every parameter once; parameters without a rule are grouped by their reason.
[[nodiscard]] std::string rules_html(const Manifest& manifest);

}  // namespace tpplan
