// The report's section of communicated bytes: of parameters and gradients over each axis, and of collectives of
// activations by location.
#pragma once

#include <string>

#include "cost/measure_manifest.h"
#include "manifest/manifest.h"

namespace tpplan {

[[nodiscard]] std::string traffic_html(const Manifest& manifest, const ManifestMeasure& measure);

}  // namespace tpplan
