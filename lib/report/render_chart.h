// A manifest's memory bars as text for a terminal: the numbers of the report.
#pragma once

#include <string>

#include "manifest/manifest.h"
#include "measure/measure_manifest.h"

namespace tpplan {

inline constexpr size_t kMinChartWidth = 40;

struct ChartOptions {
  size_t width = 80;   // columns; no line but the first, which has names, is wider, from kMinChartWidth on
  bool ascii = false;  // no character beyond ASCII but in names
  bool color = false;  // each part has one, too
};

// `measure` is of `manifest` and does not overflow. Ends with a line break.
[[nodiscard]] std::string render_chart(const Manifest& manifest, const ManifestMeasure& measure,
                                       const ChartOptions& options);

}  // namespace tpplan
