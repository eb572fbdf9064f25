#include "base/unfinished.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

namespace tpplan {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

struct Unfinished {
  std::recursive_mutex mutex;  // a guard that memory runs out for is given back under the lock
  std::multiset<std::string> paths;
  int wake = -1;
};

// Lives to the end: its thread does.
Unfinished& unfinished() {
  static auto* const state = new Unfinished;
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

// Under the lock.
std::shared_ptr<void> add_guard(const std::string& path) {
  unfinished().paths.insert(path);
  return {new std::string(path), [](std::string* guarded) {
            const std::lock_guard inner(unfinished().mutex);
            unfinished().paths.erase(unfinished().paths.find(*guarded));
            delete guarded;
          }};
}

}  // namespace

void remove_unfinished(const std::string& path) {
  const std::string removed = path + "-removed";
  std::error_code ignored;
  std::filesystem::rename(path, removed, ignored);  // fails where another process, or the final name, was first
  std::filesystem::remove_all(removed, ignored);
}

std::shared_ptr<void> guard_unfinished(const std::string& path) {
  start_guarding();
  const std::lock_guard lock(unfinished().mutex);
  return add_guard(path);
}

// Who takes away all that is guarded waits for the lock: the file is among it then.
int make_unfinished(std::string& path, std::shared_ptr<void>& guard) {
  start_guarding();
  const std::lock_guard lock(unfinished().mutex);
  const int fd = mkstemp(path.data());
  if (fd < 0) return fd;
  try {
    guard = add_guard(path);
  } catch (...) {  // memory ran out: nothing is left behind
    close(fd);
    unlink(path.c_str());
    throw;
  }
  return fd;
}

void remove_all_unfinished() {
  const std::lock_guard lock(unfinished().mutex);
  for (const std::string& path : unfinished().paths) remove_unfinished(path);
}

}  // namespace tpplan
