// The report's section of rules: what each rule of the plan decides.
#pragma once

#include <string>

#include "manifest/manifest.h"

namespace tpplan {

// Every parameter stands once; what no rule decided, by its reason.
[[nodiscard]] std::string rules_html(const Manifest& manifest);

}  // namespace tpplan
