// The report's headline numbers: bytes of the fullest rank, the excess over the ideal, replicated bytes, training
// memory.
#pragma once

#include <string>

#include "cost/measure_manifest.h"
#include "manifest/manifest.h"
#include "report/step_picture.h"

namespace tpplan {

// `picture`: the step of a run, whose peak takes the place of the sum; nullptr without a run.
[[nodiscard]] std::string tiles_html(const Manifest& manifest, const ManifestMeasure& measure,
                                     const StepPicture* picture);

}  // namespace tpplan
