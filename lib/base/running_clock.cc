#include "base/running_clock.h"

#include <atomic>
#include <mutex>

namespace tpplan {
namespace {

using std::chrono::nanoseconds;

// If more than kStopped passes between two calls of tick_running_clock, the process was stopped, and only kCounted of
// it counts. A thread that sleeps for a fraction of a second rarely waits that long for a processor; if it does, the
// clock loses the time.
constexpr nanoseconds kStopped = std::chrono::seconds(1), kCounted = std::chrono::milliseconds(250);

constexpr nanoseconds kNever = nanoseconds::min();

nanoseconds system_now() noexcept { return std::chrono::steady_clock::now().time_since_epoch(); }

// add_gap writes `seen` after `stopped`, so that a reader of the new `seen` also reads the new `stopped`.
struct Seen {
  std::mutex mutex;  // of writers
  std::atomic<nanoseconds> seen = kNever, stopped = nanoseconds::zero();
};

Seen& seen() {
  static Seen seen;
  return seen;
}

void add_gap(Seen& known) noexcept {
  const std::lock_guard lock(known.mutex);
  const nanoseconds now = system_now(), before = known.seen;
  if (before != kNever && now - before > kStopped) known.stopped = known.stopped.load() + (now - before) - kCounted;
  known.seen = now;
}

}  // namespace

void tick_running_clock() noexcept { add_gap(seen()); }

RunningClock::time_point RunningClock::now() noexcept {
  Seen& known = seen();
  nanoseconds now = system_now();
  const nanoseconds before = known.seen;
  if (before != kNever && now - before > kStopped) {
    add_gap(known);
    now = system_now();
  }
  return time_point(now - known.stopped.load());
}

}  // namespace tpplan
