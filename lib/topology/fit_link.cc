#include "topology/fit_link.h"

#include <algorithm>

namespace tpplan {
namespace {

constexpr double kNoLimit = 1e30;  // bytes a second

}  // namespace

// Minimises the sum over calls of (x a + y b - 1)^2, where x a are a call's hops and y b its bytes, both as shares of
// its time, a is the latency and b the time of a byte.
LinkSpeed fit_link(std::span<const TimedCall> calls) {
  double xx = 0, xy = 0, yy = 0, x1 = 0, y1 = 0;
  for (const TimedCall& call : calls) {
    const auto n = static_cast<double>(call.ranks);
    const double x = call.passes * (n - 1) / call.seconds;
    const double y = call.passes * (n - 1) / n * call.bytes / call.seconds;
    xx += x * x, xy += x * y, yy += y * y, x1 += x, y1 += y;
  }
  const bool one_size = std::all_of(calls.begin(), calls.end(), [&](const TimedCall& call) {
    return call.bytes == calls.front().bytes && call.ranks == calls.front().ranks;
  });
  const double det = xx * yy - xy * xy;
  double latency = one_size || det <= 0 ? 0 : (x1 * yy - y1 * xy) / det;
  double per_byte = one_size || det <= 0 ? y1 / yy : (y1 * xx - x1 * xy) / det;
  if (latency < 0) latency = 0, per_byte = y1 / yy;
  if (per_byte < 0) latency = x1 / xx, per_byte = 0;
  return {per_byte > 0 ? 1 / per_byte : kNoLimit, latency, calls.size()};
}

}  // namespace tpplan
