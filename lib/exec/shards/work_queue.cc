#include "exec/shards/work_queue.h"

#include <spdlog/fmt/fmt.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "base/long_calls.h"
#include "base/text.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

// Stores the current exception; "out of memory" if there is no memory to store it.
void save_current_error(WorkQueue& queue) {
  try {
    stop_work(queue, current_error());
  } catch (...) {
    stop_work(queue,
              Fault{.code = Code::OutOfMemory, .message = "out of memory"});  // short enough to need no allocation
  }
}

void run_worker(WorkQueue& queue, const Worker& worker, const CallPlace& place) {
  try {
    set_call_place(place);
    begin_work();
    worker(queue);
  } catch (...) {
    save_current_error(queue);
  }
  end_work();
  const std::lock_guard lock(queue.mutex);
  if (--queue.running == 0) queue.ended.notify_all();
}

}  // namespace

void start_work(WorkQueue& queue, int threads, const Worker& worker) {
  queue.running = threads;
  for (int i = 0; i < threads; ++i) {
    try {
      queue.threads.emplace_back(run_worker, std::ref(queue), worker, call_place());
    } catch (const std::exception& error) {  // no more threads: those that exist do the work
      queue.running -= threads - i;
      if (i == 0)
        stop_work(queue, Fault{.code = Code::OutOfMemory,
                               .message = std::string("cannot start a thread: ") + error.what(),
                               .help = "check ulimit -u and ulimit -v"});
      return;
    }
  }
}

// Returns indices in ascending order, each once. After a thread lowers `count` to an index, all below it are taken.
bool take_work(WorkQueue& queue, uint64_t& number) {
  if (queue.stop) return false;
  number = queue.next++;
  return number < queue.count;
}

void stop_work(WorkQueue& queue, std::optional<Fault> fault) {
  const std::lock_guard lock(queue.mutex);
  if (!queue.fault) queue.fault = std::move(fault);
  queue.stop = true;
}

bool wait_for_work(WorkQueue& queue, double seconds) {
  std::unique_lock lock(queue.mutex);
  return queue.ended.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return queue.running == 0; });
}

void join_work(WorkQueue& queue) {
  for (std::jthread& thread : queue.threads) thread.join();
  queue.threads.clear();
}

void show_bar(std::string_view title, uint64_t done, uint64_t total, double seconds) {
  if (isatty(STDERR_FILENO) == 0) return;
  winsize window{};
  const size_t width = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 80;
  const std::string right = fmt::format(" {} of {}, {:.1f} GB/s", human_bytes(done), human_bytes(total),
                                        seconds > 0 ? static_cast<double>(done) / seconds / 1e9 : 0.0);
  std::string line(title);
  if (width > line.size() + right.size() + 8) {
    const size_t file_ranges = std::min<size_t>(width - line.size() - right.size() - 4, 40);
    const size_t full =
        total == 0 ? file_ranges
                   : static_cast<size_t>(static_cast<double>(file_ranges) * static_cast<double>(std::min(done, total)) /
                                         static_cast<double>(total));
    line += " [" + std::string(full, '#') + std::string(file_ranges - full, '.') + "]";
  }
  line += right;
  line.resize(std::min(line.size(), width - 1));
  line = "\r\x1b[2K" + line;
  [[maybe_unused]] const ssize_t put = write(STDERR_FILENO, line.data(), line.size());
}

void show_line(std::string_view title, uint64_t done, uint64_t total, double seconds) {
  JsonWriter json;
  begin_object(json);
  write_field(json, "progress", title);
  write_field(json, "done_bytes", done);
  write_field(json, "total_bytes", total);
  write_key(json, "seconds");
  write_number(json, seconds, 1);
  end_object(json);
  const std::string line = json.out + '\n';
  [[maybe_unused]] const ssize_t put = write(STDERR_FILENO, line.data(), line.size());
}

void clear_bar() {
  static constexpr std::string_view kWipe = "\r\x1b[2K";
  if (isatty(STDERR_FILENO) == 0) return;
  [[maybe_unused]] const ssize_t put = write(STDERR_FILENO, kWipe.data(), kWipe.size());
}

}  // namespace tpplan
