// The report's section of the time of a step, with its formulas.
#pragma once

#include <string>

#include "cost/measure_time.h"
#include "manifest/manifest.h"

namespace tpplan {

// The time of a step on a topology. `before` is the time of an older manifest, or nullptr.
struct ReportTime {
  const StepTime& time;
  const Topology& topology;
  const StepTime* before = nullptr;
};

[[nodiscard]] std::string time_html(const Manifest& manifest, const ReportTime& step);

}  // namespace tpplan
