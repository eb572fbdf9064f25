// Draws the memory bars of the report as text for a terminal.
#pragma once

#include <string>

#include "cost/measure_manifest.h"
#include "manifest/manifest.h"

namespace tpplan {

inline constexpr size_t kMinChartWidth = 40;

struct ChartOptions {
  size_t width = 80;   // columns, at least kMinChartWidth; only the first line, which has names, can be wider
  bool ascii = false;  // draw with ASCII characters only
  bool color = false;  // also color the parts
};

// Returns the chart, which ends with a line break. @pre `measure` is of `manifest` and does not overflow.
[[nodiscard]] std::string render_chart(const Manifest& manifest, const ManifestMeasure& measure,
                                       const ChartOptions& options);

}  // namespace tpplan
