// The report's section of the collectives of a training step: layers that are alike once, and what they move.
#pragma once

#include <string>

#include "manifest/manifest.h"
#include "measure/measure_manifest.h"

namespace tpplan {

// `measure` is of `manifest` and does not overflow.
[[nodiscard]] std::string collectives_section(const Manifest& manifest, const ManifestMeasure& measure);

}  // namespace tpplan
