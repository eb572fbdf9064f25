// Taking back what was reported.
#pragma once

#include <functional>

#include "diagnostics/diagnostics.h"

namespace tpplan {

// Takes findings back where something better is known by now. What is reported later finds the rest as it was.
void remove_findings(Diagnostics& diagnostics, const std::function<bool(const Diagnostic&)>& is_settled);

}  // namespace tpplan
