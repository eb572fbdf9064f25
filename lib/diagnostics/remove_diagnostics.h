// Removes reported diagnostics.
#pragma once

#include <functional>

#include "diagnostics/diagnostics.h"

namespace tpplan {

// Removes the diagnostics for which `is_replaced` is true, because better ones replace them. Later reports still
// merge with the remaining causes.
void remove_diagnostics(Diagnostics& diagnostics, const std::function<bool(const Diagnostic&)>& is_replaced);

}  // namespace tpplan
