// The report's notices for the owner of a plan: replicated parameters, rules without effect, and hidden collectives.
#pragma once

#include <string>

#include "cost/measure_manifest.h"

namespace tpplan {

// Returns an HTML list with line numbers of the plan; empty without notices.
[[nodiscard]] std::string notices_html(const Manifest& manifest, const ManifestMeasure& measure);

}  // namespace tpplan
