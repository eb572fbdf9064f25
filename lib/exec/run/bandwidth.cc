#include "exec/run/bandwidth.h"

#include "sharding/steps.h"

namespace tpplan {

Bandwidth bandwidth_of(CollectiveKind kind, uint64_t bytes, double seconds, int ranks) {
  if (seconds <= 0) return {};
  const double algorithm = static_cast<double>(bytes) / seconds;
  return {algorithm, algorithm * ring_passes(kind) * (ranks - 1) / ranks};
}

}  // namespace tpplan
