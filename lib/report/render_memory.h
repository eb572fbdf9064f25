// The report's section of memory: a bar per group of ranks, the memory of the fullest rank, and exact byte counts.
#pragma once

#include <string>

#include "cost/measure_manifest.h"
#include "manifest/manifest.h"
#include "report/step_picture.h"

namespace tpplan {

// `picture`: as tiles_html has it.
[[nodiscard]] std::string memory_html(const Manifest& manifest, const ManifestMeasure& measure,
                                      const StepPicture* picture);

}  // namespace tpplan
