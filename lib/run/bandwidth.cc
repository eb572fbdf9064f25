#include "run/bandwidth.h"

namespace tpplan {
namespace {

// Bus bandwidth over algorithm bandwidth, but for (n - 1) / n, by CollectiveKind.
constexpr double kBusFactor[] = {1, 2, 1, 1, 0};

}  // namespace

Bandwidth bandwidth_of(CollectiveKind kind, uint64_t bytes, double seconds, int ranks) {
  if (seconds <= 0) return {};
  const double algorithm = static_cast<double>(bytes) / seconds;
  return {algorithm, algorithm * kBusFactor[static_cast<size_t>(kind)] * (ranks - 1) / ranks};
}

}  // namespace tpplan
