// Renders a manifest as one HTML page, without scripts or external resources. Equal manifests give equal bytes.
#pragma once

#include <optional>
#include <string>

#include "base/write_file.h"
#include "cost/measure_manifest.h"
#include "diff/manifest_diff.h"
#include "manifest/manifest.h"
#include "report/render_pictures.h"
#include "report/render_time.h"

namespace tpplan {

// The older manifest of a comparison, with the result of `diff_manifests`.
struct ReportComparison {
  const Manifest* manifest = nullptr;
  const ManifestDiff* diff = nullptr;
};

// Writes the page to the sink. Returns false as soon as the sink returns false. `step` is empty without a topology or
// without operations in the manifest. `pictures` are of a run, and take the place of `step`. Names are escaped and
// truncated, and long lists end with the number of omitted entries. @pre `measure` is of `manifest` and does not
// overflow.
[[nodiscard]] bool render_html(const Manifest& manifest, const ManifestMeasure& measure,
                               const std::optional<ReportComparison>& against, const std::optional<ReportTime>& step,
                               const StepPictures& pictures, const Sink& sink);

}  // namespace tpplan
