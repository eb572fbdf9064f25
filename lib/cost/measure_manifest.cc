#include "cost/measure_manifest.h"

namespace tpplan {

ManifestMeasure measure_manifest(const Manifest& manifest, const Recipe& recipe) {
  ManifestMeasure measure{.memory = measure_memory(manifest, recipe),
                          .traffic = measure_traffic(manifest),
                          .collectives = measure_collectives(manifest.collectives, manifest.mesh)};
  measure.overflow = measure.memory.overflow || measure.traffic.overflow || measure.collectives.overflow;
  return measure;
}

}  // namespace tpplan
