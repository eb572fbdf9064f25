// The speed of a link, from timings of collectives over it.
#pragma once

#include <cstdint>
#include <span>

#include "measure/topology.h"

namespace tpplan {

// One call, timed: its size as nccl-tests counts it, and how often a ring carries it (ring_passes).
struct TimedCall {
  int passes = 1;
  int64_t ranks = 0;
  double bytes = 0, seconds = 0;
};

// The latency and the bandwidth with which the formulas of measure/measure_time.h come nearest to the timings, each
// off by as little of itself as can be: least squares of relative errors. A latency below zero is none there: it is 0
// then, as where all calls are of one size. The bandwidth has no limit where longer calls take no longer.
//
// @pre some calls, of two ranks or more, that took time and moved bytes
[[nodiscard]] LinkSpeed fit_link(std::span<const TimedCall> calls);

}  // namespace tpplan
