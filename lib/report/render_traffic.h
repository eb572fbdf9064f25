// The report's section of bytes moved: by parameters and gradients over each axis, and the places of collectives of
// values.
#pragma once

#include <string>

#include "manifest/manifest.h"
#include "measure/measure_manifest.h"

namespace tpplan {

[[nodiscard]] std::string traffic_html(const Manifest& manifest, const ManifestMeasure& measure);

}  // namespace tpplan
