#include "base/long_calls.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <vector>

namespace tpplan {
namespace {

using Clock = std::chrono::steady_clock;

// What one thread is at. The lock is held for moments: by its thread, and by the one that looks.
struct ThreadCalls {
  std::mutex mutex;
  CallPlace place;
  bool is_under_way = false;
  std::string_view what, file;
  uint64_t offset = kNoOffset;
  Clock::time_point start;
};

// Lives to the end: threads that nobody joins do.
struct AllCalls {
  std::mutex mutex;
  std::vector<std::unique_ptr<ThreadCalls>> threads;
};

AllCalls& all_calls() {
  static auto* const all = new AllCalls;
  return *all;
}

void forget_calls(void* record) {
  const std::lock_guard lock(all_calls().mutex);
  std::erase_if(all_calls().threads, [&](const auto& thread) { return thread.get() == record; });
}

// A pthread key, whose value goes with its thread: for a thread_local with a destructor glibc ends the process where
// there is no memory to note it.
pthread_key_t calls_key() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    if (pthread_key_create(&made, forget_calls) != 0) throw std::bad_alloc();
    return made;
  }();
  return key;
}

ThreadCalls& own_calls() {
  if (void* own = pthread_getspecific(calls_key()); own != nullptr) return *static_cast<ThreadCalls*>(own);
  auto made = std::make_unique<ThreadCalls>();
  ThreadCalls& own = *made;
  const std::lock_guard lock(all_calls().mutex);
  all_calls().threads.push_back(std::move(made));
  if (pthread_setspecific(calls_key(), &own) != 0) {
    all_calls().threads.pop_back();
    throw std::bad_alloc();
  }
  return own;
}

// The oldest call of this process, when it is older than `seconds`.
std::optional<LongCall> find_long_call(double seconds) {
  const std::lock_guard lock(all_calls().mutex);
  std::optional<LongCall> oldest;
  for (const auto& thread : all_calls().threads) {
    const std::lock_guard inner(thread->mutex);
    if (!thread->is_under_way) continue;
    const double age = std::chrono::duration<double>(Clock::now() - thread->start).count();
    if (age < std::max(seconds, oldest ? oldest->seconds : 0.0)) continue;
    oldest = LongCall{.place = thread->place,
                      .what = std::string(thread->what),
                      .file = std::string(thread->file),
                      .offset = thread->offset,
                      .seconds = age};
  }
  return oldest;
}

void watch_threads(double seconds, void (*tell)(const LongCall& call)) {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::clamp(seconds / 20, 0.01, 1.0)));
    if (const std::optional<LongCall> call = find_long_call(seconds)) return tell(*call);
  }
}

}  // namespace

void set_call_place(CallPlace place) {
  ThreadCalls& calls = own_calls();
  const std::lock_guard lock(calls.mutex);
  calls.place = std::move(place);
}

CallPlace call_place() {
  ThreadCalls& calls = own_calls();
  const std::lock_guard lock(calls.mutex);
  return calls.place;
}

void watch_calls(double seconds, void (*tell)(const LongCall& call)) {
  static std::once_flag once;
  std::call_once(once, [&] { std::thread(watch_threads, seconds, tell).detach(); });
}

void begin_call(std::string_view what, std::string_view file, uint64_t offset) {
  ThreadCalls& calls = own_calls();
  const std::lock_guard lock(calls.mutex);
  calls.is_under_way = true;
  calls.what = what;
  calls.file = file;
  calls.offset = offset;
  calls.start = Clock::now();
}

void end_call() {
  ThreadCalls& calls = own_calls();
  const std::lock_guard lock(calls.mutex);
  calls.is_under_way = false;
}

}  // namespace tpplan
