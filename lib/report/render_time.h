// The report's section of how long a step takes, with the formulas by which it is reckoned.
#pragma once

#include <string>

#include "manifest/manifest.h"
#include "measure/measure_time.h"

namespace tpplan {

// Of a step on machines of a topology. `before`: that of an older manifest, or nullptr.
struct ReportTime {
  const StepTime& time;
  const Topology& topology;
  const StepTime* before = nullptr;
};

[[nodiscard]] std::string time_html(const Manifest& manifest, const ReportTime& step);

}  // namespace tpplan
