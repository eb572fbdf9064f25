// A clock that no administrator sets, and that stands still while the process is stopped as a whole: by ^Z, by a
// scheduler that suspends its jobs, with a machine that sleeps. Who waits for another has not waited then.
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

// A thread calls it again and again, several times a second: that it did not for longer shows that nothing ran. Until
// the first call the clock is the system's.
void note_running() noexcept;

}  // namespace tpplan
