// The report's headline numbers: bytes of the fullest rank, the excess over the ideal, replicated bytes, training
// memory.
#pragma once

#include <string>

#include "cost/measure_manifest.h"
#include "manifest/manifest.h"

namespace tpplan {

[[nodiscard]] std::string tiles_html(const Manifest& manifest, const ManifestMeasure& measure);

}  // namespace tpplan
