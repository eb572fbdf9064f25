// All numbers of the report and the chart, from a manifest.
#pragma once

#include "cost/measure_collectives.h"
#include "cost/measure_memory.h"
#include "cost/measure_traffic.h"

namespace tpplan {

struct ManifestMeasure {
  MemoryMeasure memory;
  TrafficMeasure traffic;
  CollectiveMeasure collectives;  // of a step, if the manifest lists them; points into the manifest
  bool overflow = false;          // a sum exceeds 64 bits: everything above is invalid
};

[[nodiscard]] ManifestMeasure measure_manifest(const Manifest& manifest, const Recipe& recipe);

}  // namespace tpplan
