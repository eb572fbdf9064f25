// Removes reported diagnostics.
#pragma once

#include <functional>

#include "diagnostics/diagnostics.h"

namespace tpplan {

// Removes the diagnostics for which `has_walk_error` is true, because better ones replace them. Later reports still
// merge with the remaining causes.
void remove_diagnostics(Diagnostics& diagnostics, const std::function<bool(const Diagnostic&)>& has_walk_error);

}  // namespace tpplan
