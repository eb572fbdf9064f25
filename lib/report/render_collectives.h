// The report's section of the collectives of a training step. Identical layers are listed once.
#pragma once

#include <string>

#include "cost/measure_manifest.h"
#include "manifest/manifest.h"

namespace tpplan {

// Returns the section. @pre `measure` is of `manifest` and does not overflow.
[[nodiscard]] std::string collectives_section(const Manifest& manifest, const ManifestMeasure& measure);

}  // namespace tpplan
