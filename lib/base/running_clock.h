// A monotonic clock that stops while the whole process is stopped: by ^Z, by a scheduler that suspends jobs, with a
// machine that sleeps. Such time does not count for deadlines.
#pragma once

#include <chrono>

namespace tpplan {

struct RunningClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<RunningClock>;
  static constexpr bool is_steady = true;
  [[nodiscard]] static time_point now() noexcept;
};

// A thread must call this several times a second: a longer gap means that the process was stopped. Before the first
// call the clock is the system's.
void tick_running_clock() noexcept;

}  // namespace tpplan
