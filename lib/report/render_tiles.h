// The report's numbers of which one reads first: how much each rank holds, how far that is from the ideal, and what
// stayed replicated.
#pragma once

#include <string>

#include "manifest/manifest.h"
#include "measure/measure_manifest.h"

namespace tpplan {

[[nodiscard]] std::string tiles_html(const Manifest& manifest, const ManifestMeasure& measure);

}  // namespace tpplan
