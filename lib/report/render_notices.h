// What the owner of a plan should look at first: what no rule cuts, rules that cut nothing, calls that nobody asked
// for.
#pragma once

#include <string>

#include "measure/measure_manifest.h"

namespace tpplan {

// A list, with the plan's lines; empty where there is nothing to look at.
[[nodiscard]] std::string notices_html(const Manifest& manifest, const ManifestMeasure& measure);

}  // namespace tpplan
