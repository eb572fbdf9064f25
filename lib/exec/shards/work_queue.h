// Worker threads that take items by index. The first fault stops all of them. A progress bar shows how many bytes are
// done.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "diagnostics/fault.h"

namespace tpplan {

// A queue of the items [0, count). After a fault, threads finish their current item and stop.
struct WorkQueue {
  std::atomic<uint64_t> count{0};  // a worker may lower it, to end the work early
  std::atomic<uint64_t> next{0};
  std::atomic<int> running{0};
  std::atomic<uint64_t> done_bytes{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;  // guards `fault` and the wait for `running` to become 0
  std::condition_variable ended;
  std::optional<Fault> fault;
  std::vector<std::jthread> threads;  // the destructor joins them
};

// Function that each thread executes once: it takes indices with take_work until that returns false. An exception is
// the fault of the queue.
using Worker = std::function<void(WorkQueue& queue)>;

void start_work(WorkQueue& queue, int threads, const Worker& worker);
[[nodiscard]] bool take_work(WorkQueue& queue, uint64_t& number);
void stop_work(WorkQueue& queue, std::optional<Fault> fault = std::nullopt);

// Waits for at most `seconds`. Returns true if all threads have ended.
[[nodiscard]] bool wait_for_work(WorkQueue& queue, double seconds);

// Joins the threads.
void join_work(WorkQueue& queue);

// Draws "loading [#####.....] 1.2 GiB of 2.0 GiB, 3.4 GB/s" over the current line of standard error, at most as wide as
// the terminal. Has no effect if standard error is not a terminal. clear_bar erases it.
void show_bar(std::string_view title, uint64_t done, uint64_t total, double seconds);
void clear_bar();

// Prints the progress as a line of JSON on standard error: {"progress": "loading", "done_bytes": 1, "total_bytes": 2,
// "seconds": 3.0}
void show_line(std::string_view title, uint64_t done, uint64_t total, double seconds);

}  // namespace tpplan
