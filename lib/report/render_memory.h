// The report's section of memory: a bar for each group of ranks, what the fullest holds, exact bytes.
#pragma once

#include <string>

#include "manifest/manifest.h"
#include "measure/measure_manifest.h"

namespace tpplan {

[[nodiscard]] std::string memory_html(const Manifest& manifest, const ManifestMeasure& measure);

}  // namespace tpplan
