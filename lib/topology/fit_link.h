// Fits the speed of a link to timings of collectives.
#pragma once

#include <cstdint>
#include <span>

#include "topology/topology.h"

namespace tpplan {

// A timed call: its size as nccl-tests counts it, and its ring_passes.
struct TimedCall {
  int passes = 1;
  int64_t ranks = 0;
  double bytes = 0, seconds = 0;
};

// Returns the latency and bandwidth that fit the formulas of cost/measure_time.h to the timings: least squares of
// relative errors. The latency is 0 if it would be negative or all calls have one size. The bandwidth is unlimited if
// larger calls take no longer.
//
// @pre at least one call, of two ranks or more, with positive time and bytes
[[nodiscard]] LinkSpeed fit_link(std::span<const TimedCall> calls);

}  // namespace tpplan
