#include "base/long_calls.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/running_clock.h"

namespace tpplan {
namespace {

using Clock = RunningClock;

// The registered call of one thread. Its thread and the watcher hold the lock briefly.
struct ThreadCalls {
  std::mutex mutex;
  CallPlace place;
  bool is_in_progress = false;
  std::string_view what, file;
  uint64_t offset = kNoOffset;
  Clock::time_point start;  // of the current call, else the end of the previous one
  bool is_at_work = false;
  clockid_t clock{};  // the CPU-time clock of the thread
  pid_t id = 0;
  int64_t had = -1;         // CPU time in ns at the watcher's last check
  Clock::time_point moved;  // last check at which the CPU time had increased
};

// Never destroyed, because detached threads use it until the process ends.
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

// A pthread key, whose value is destroyed with its thread. With a thread_local glibc would abort if there is no memory
// to register its destructor.
pthread_key_t calls_key() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    if (pthread_key_create(&made, forget_calls) != 0) throw std::bad_alloc();
    return made;
  }();
  return key;
}

ThreadCalls& calls_of_thread() {
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

// Returns how long the CPU time of a working thread has not increased.
double idle_seconds(ThreadCalls& thread) {
  timespec had{};
  if (clock_gettime(thread.clock, &had) != 0) return 0;
  const int64_t ns = int64_t{1'000'000'000} * had.tv_sec + had.tv_nsec;
  if (ns != std::exchange(thread.had, ns)) thread.moved = Clock::now();
  return std::chrono::duration<double>(Clock::now() - std::max(thread.start, thread.moved)).count();
}

// Describes where a thread waits, from its /proc/self/task/ID/syscall: "-1 STACK PC" outside of system calls, else the
// number of the system call, its arguments, STACK and PC. Returns nullopt for a "running" thread, which only lacks CPU
// time.
std::optional<LongCall> describe_wait(const ThreadCalls& thread, double seconds) {
  LongCall call{.place = thread.place, .what = "work", .file = {}, .seconds = seconds};
  std::ifstream told("/proc/self/task/" + std::to_string(thread.id) + "/syscall");
  std::string line;
  if (!std::getline(told, line)) return call;
  if (line.starts_with("-1"))
    call.what = "a page fault";
  else if (line.starts_with("running"))
    return std::nullopt;
  else
    call.what = "system call " + line.substr(0, line.find(' '));
  const uint64_t at = std::strtoull(line.substr(line.rfind(' ') + 1).c_str(), nullptr, 16);
  std::ifstream maps("/proc/self/maps");
  while (std::getline(maps, line)) {  // "5581c000-5581d000 r-xp 00002000 08:01 1234    /usr/bin/program"
    uint64_t begin = 0, end = 0, offset = 0;
    int name = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %n", &begin, &end, &offset, &name) <
            3 ||
        at < begin || at >= end)
      continue;
    call.file = line.substr(static_cast<size_t>(name));
    call.offset = offset + (at - begin);
  }
  return call;
}

// Returns the oldest call of this process if it is older than `seconds`.
std::optional<LongCall> find_long_call(double seconds) {
  const std::lock_guard lock(all_calls().mutex);
  std::optional<LongCall> oldest;
  for (const auto& thread : all_calls().threads) {
    const std::lock_guard inner(thread->mutex);
    if (thread->is_at_work && !thread->is_in_progress) {
      const double idle = idle_seconds(*thread);
      if (idle >= std::max(seconds, oldest ? oldest->seconds : 0.0)) {
        if (std::optional<LongCall> wait = describe_wait(*thread, idle)) oldest = std::move(wait);
      }
    }
    if (!thread->is_in_progress) continue;
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

void watch_threads(double seconds, void (*report_call)(const LongCall& call)) {
  for (;;) {
    tick_running_clock();
    std::this_thread::sleep_for(std::chrono::duration<double>(std::clamp(seconds / 20, 0.01, 0.2)));
    if (const std::optional<LongCall> call = find_long_call(seconds)) return report_call(*call);
  }
}

}  // namespace

void begin_work() {
  ThreadCalls& calls = calls_of_thread();
  const std::lock_guard lock(calls.mutex);
  calls.is_at_work = pthread_getcpuclockid(pthread_self(), &calls.clock) == 0;
  calls.id = gettid();
  calls.start = calls.moved = Clock::now();
}

void end_work() {
  auto* const own = static_cast<ThreadCalls*>(pthread_getspecific(calls_key()));
  if (own == nullptr) return;  // not registered, for lack of memory
  ThreadCalls& calls = *own;
  const std::lock_guard lock(calls.mutex);
  calls.is_at_work = false;
}

void set_call_place(CallPlace place) {
  ThreadCalls& calls = calls_of_thread();
  const std::lock_guard lock(calls.mutex);
  calls.place = std::move(place);
}

CallPlace call_place() {
  ThreadCalls& calls = calls_of_thread();
  const std::lock_guard lock(calls.mutex);
  return calls.place;
}

void watch_calls(double seconds, void (*report_call)(const LongCall& call)) {
  static std::once_flag once;
  std::call_once(once, [&] { std::thread(watch_threads, seconds, report_call).detach(); });
}

void begin_call(std::string_view what, std::string_view file, uint64_t offset) {
  ThreadCalls& calls = calls_of_thread();
  const std::lock_guard lock(calls.mutex);
  calls.is_in_progress = true;
  calls.what = what;
  calls.file = file;
  calls.offset = offset;
  calls.start = Clock::now();
}

void end_call() {
  ThreadCalls& calls = calls_of_thread();
  const std::lock_guard lock(calls.mutex);
  calls.is_in_progress = false;
  calls.start = Clock::now();
}

}  // namespace tpplan
