#include "base/running_clock.h"

#include <atomic>
#include <mutex>

namespace tpplan {
namespace {

using std::chrono::nanoseconds;

// Usually longer than a thread that sleeps for a fraction of a second waits for a processor. If it waits longer, the
// clock loses that time.
constexpr nanoseconds kStopped = std::chrono::seconds(1), kCounted = std::chrono::milliseconds(250);

constexpr nanoseconds kNever = nanoseconds::min();

nanoseconds system_now() noexcept { return std::chrono::steady_clock::now().time_since_epoch(); }

// `seen` is written last, so that a reader of a late value also reads what was added for the time before it.
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

void note_running() noexcept { add_gap(seen()); }

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
