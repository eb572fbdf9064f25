// Every number of the report and of the chart, from a manifest.
#pragma once

#include "measure/measure_collectives.h"
#include "measure/measure_memory.h"
#include "measure/measure_traffic.h"

namespace tpplan {

struct ManifestMeasure {
  MemoryMeasure memory;
  TrafficMeasure traffic;
  CollectiveMeasure collectives;  // of a step, where the manifest lists them; points into the manifest
  bool overflow = false;          // a sum leaves 64 bits: nothing above is to be used
};

[[nodiscard]] ManifestMeasure measure_manifest(const Manifest& manifest, const Recipe& recipe);

}  // namespace tpplan
