// A manifest as one page of HTML: no script, nothing from elsewhere, the same bytes for the same manifests.
#pragma once

#include <optional>
#include <string>

#include "base/write_file.h"
#include "manifest/diff_manifest.h"
#include "manifest/manifest.h"
#include "measure/measure_manifest.h"
#include "report/render_time.h"

namespace tpplan {

// What the report is compared with: the older manifest, and what `diff_manifests` found.
struct ReportAgainst {
  const Manifest* manifest = nullptr;
  const ManifestDiff* diff = nullptr;
};

// The page. `step` is absent where no machine was named, or the manifest knows no operations. Names are shown escaped
// and cut to a length; long lists end with a sentence that says how many more there are. `measure` is of `manifest` and
// does not overflow. False as soon as the sink refuses.
[[nodiscard]] bool render_html(const Manifest& manifest, const ManifestMeasure& measure,
                               const std::optional<ReportAgainst>& against, const std::optional<ReportTime>& step,
                               const Sink& sink);

}  // namespace tpplan
