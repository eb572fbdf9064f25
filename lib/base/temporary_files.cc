#include "base/temporary_files.h"

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

// Both names are allocated before the file exists, because its removal must not need memory.
struct Guarded {
  std::string path, removed;
};

struct Unfinished {
  std::recursive_mutex mutex;  // a guard is released under the lock if memory runs out
  std::list<Guarded> guarded;
  int wake = -1;
};

// Never destroyed, because its thread uses it until the process ends. Not on the heap, because it is needed when memory
// is exhausted.
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

// Waits for the first signal. The signal handler must do almost nothing; this thread can do anything.
void watch() {
  uint64_t count = 0;
  while (read(unfinished().wake, &count, sizeof count) < 0) {
  }
  remove_all_temporary();
  const int signal = caught_signal;
  std::signal(signal, SIG_DFL);
  kill(getpid(), signal);
}

// If the watcher cannot start, for lack of memory or descriptors, signals keep their default behaviour.
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

std::string removed_name(const std::string& path) { return path + std::string(kRemovedSuffix); }

// Removes a file, without allocating memory, or a folder with its content.
void remove_as(const std::string& path, const std::string& removed) {
  std::rename(path.c_str(), removed.c_str());  // fails if another process renamed it first
  if (unlink(removed.c_str()) == 0 || errno == ENOENT) return;
  std::error_code ignored;
  std::filesystem::remove_all(removed, ignored);
}

// @pre the lock is held
std::shared_ptr<void> add_guard(const std::string& path) {
  std::list<Guarded>& all = unfinished().guarded;
  all.push_back({path, removed_name(path)});
  return {&all.back(), [own = std::prev(all.end())](void*) {
            const std::lock_guard inner(unfinished().mutex);
            unfinished().guarded.erase(own);
          }};
}

}  // namespace

void remove_temporary(const std::string& path) { remove_as(path, removed_name(path)); }

std::shared_ptr<void> guard_temporary(const std::string& path) {
  start_guarding();
  const std::lock_guard lock(unfinished().mutex);
  return add_guard(path);
}

// Creates the file under the lock, so that remove_all_temporary never misses it.
int create_temporary_file(std::string& path, std::shared_ptr<void>& guard) {
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
  own.removed.replace(0, path.size(), path);  // the same length, so no allocation
  own.path.assign(path);
  return fd;
}

void remove_all_temporary() {
  const std::lock_guard lock(unfinished().mutex);
  for (const Guarded& own : unfinished().guarded) remove_as(own.path, own.removed);
}

}  // namespace tpplan
