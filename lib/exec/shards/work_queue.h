// Threads that take numbered pieces of work, with the first fault of any of them, and a bar that shows how far they
// are.
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

// Work in progress. A fault stops all threads after the piece that they are at.
struct WorkQueue {
  std::atomic<uint64_t> count{0};  // may become less while threads work
  std::atomic<uint64_t> next{0};
  std::atomic<int> running{0};
  std::atomic<uint64_t> done_bytes{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;  // guards fault, and who waits for `running` to become 0
  std::condition_variable ended;
  std::optional<Fault> fault;
  std::vector<std::jthread> threads;  // joined at the latest with the queue
};

// What a thread does: called once on it, takes numbers with take_work until that is false. What it throws is the fault.
using Worker = std::function<void(WorkQueue& queue)>;

void start_work(WorkQueue& queue, int threads, const Worker& worker);
[[nodiscard]] bool take_work(WorkQueue& queue, uint64_t& number);
void stop_work(WorkQueue& queue, std::optional<Fault> fault = std::nullopt);

// Waits for at most `seconds`; true when all threads have ended.
[[nodiscard]] bool wait_for_work(WorkQueue& queue, double seconds);

// Joins the threads.
void join_work(WorkQueue& queue);

// "loading [#####.....] 1.2 GiB of 2.0 GiB, 3.4 GB/s" over the last line of standard error, as wide as the terminal;
// nothing where standard error is no terminal. clear_bar wipes it.
void show_bar(std::string_view title, uint64_t done, uint64_t total, double seconds);
void clear_bar();

// The same as a line of JSON on standard error: {"progress": "loading", "done_bytes": 1, "total_bytes": 2,
// "seconds": 3.0}
void show_line(std::string_view title, uint64_t done, uint64_t total, double seconds);

}  // namespace tpplan
