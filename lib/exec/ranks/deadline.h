// Deadlines and durations in seconds that the process was running. Changes of the wall clock do not affect them.
#pragma once

#include <chrono>

#include "base/running_clock.h"

namespace tpplan {

using Clock = RunningClock;

[[nodiscard]] inline Clock::time_point after(double seconds, Clock::time_point start = Clock::now()) {
  return start + std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::duration<double>(seconds));
}

[[nodiscard]] inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace tpplan
