// When a wait is over. By the clock that no administrator sets: a deadline is so many seconds, whatever time it is.
#pragma once

#include <chrono>

namespace tpplan {

[[nodiscard]] inline std::chrono::steady_clock::time_point after(
    double seconds, std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now()) {
  return start + std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::duration<double>(seconds));
}

}  // namespace tpplan
