#include "base/unfinished.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <list>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace tpplan {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

// Both names are made before there is a file: who takes it away may have no memory.
struct Guarded {
  std::string path, removed;
};

struct Unfinished {
  std::recursive_mutex mutex;  // a guard that memory runs out for is given back under the lock
  std::list<Guarded> guarded;
  int wake = -1;
};

// Lives to the end: its thread does. Not from the heap: it is asked for when there is none left.
Unfinished& unfinished() {
  alignas(Unfinished) static std::byte place[sizeof(Unfinished)];
  static auto* const state = new (place) Unfinished;
  return *state;
}

std::atomic<int> caught_signal = 0;
std::atomic<int> wake_descriptor = -1;

void note_signal(int signal) {
  int none = 0;
  if (!caught_signal.compare_exchange_strong(none, signal)) return;
  const uint64_t one = 1;
  if (write(wake_descriptor, &one, sizeof one) < 0) _exit(128 + signal);
}

// Waits for the first signal. A handler may do next to nothing; this thread may do all.
void watch() {
  uint64_t count = 0;
  while (read(unfinished().wake, &count, sizeof count) < 0) {
  }
  remove_all_unfinished();
  const int signal = caught_signal;
  std::signal(signal, SIG_DFL);
  kill(getpid(), signal);
}

// Where nobody can watch, for want of memory or descriptors, signals do as ever.
void start_watching() {
  unfinished().wake = eventfd(0, EFD_CLOEXEC);
  if (unfinished().wake < 0) return;
  wake_descriptor = unfinished().wake;
  try {
    std::thread(watch).detach();
  } catch (const std::system_error&) {
    return;
  }
  for (const int signal : kSignals) {
    if (const auto before = std::signal(signal, note_signal); before != SIG_DFL) std::signal(signal, before);
  }
}

void start_guarding() {
  static std::once_flag once;
  std::call_once(once, start_watching);
}

std::string removed_name(const std::string& path) { return path + "-removed"; }

// A file is taken away without memory; what a folder holds is looked up.
void remove_as(const std::string& path, const std::string& removed) {
  std::rename(path.c_str(), removed.c_str());  // fails where another process, or the final name, was first
  if (unlink(removed.c_str()) == 0 || errno == ENOENT) return;
  std::error_code ignored;
  std::filesystem::remove_all(removed, ignored);
}

// Under the lock.
std::shared_ptr<void> add_guard(const std::string& path) {
  std::list<Guarded>& all = unfinished().guarded;
  all.push_back({path, removed_name(path)});
  return {&all.back(), [own = std::prev(all.end())](void*) {
            const std::lock_guard inner(unfinished().mutex);
            unfinished().guarded.erase(own);
          }};
}

}  // namespace

void remove_unfinished(const std::string& path) { remove_as(path, removed_name(path)); }

std::shared_ptr<void> guard_unfinished(const std::string& path) {
  start_guarding();
  const std::lock_guard lock(unfinished().mutex);
  return add_guard(path);
}

// Who takes away all that is guarded waits for the lock: the file is among it then.
int make_unfinished(std::string& path, std::shared_ptr<void>& guard) {
  start_guarding();
  const std::lock_guard lock(unfinished().mutex);
  guard = add_guard(path);
  Guarded& own = *static_cast<Guarded*>(guard.get());
  const int fd = mkstemp(path.data());
  if (fd < 0) {
    const int error = errno;
    guard.reset();
    errno = error;
    return fd;
  }
  own.removed.replace(0, path.size(), path);  // as long as before: no memory is asked for
  own.path.assign(path);
  return fd;
}

void remove_all_unfinished() {
  const std::lock_guard lock(unfinished().mutex);
  for (const Guarded& own : unfinished().guarded) remove_as(own.path, own.removed);
}

}  // namespace tpplan
