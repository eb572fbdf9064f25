#include "shards/work_together.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

namespace tpplan {
namespace {

constexpr double kHeartbeat = 0.1;  // seconds between signs of life
constexpr std::string_view kBusy = "busy", kDone = "done", kFailed = "failed: ";

}  // namespace

std::string finish_together(Comm& comm, WorkQueue& queue) {
  std::string fault;
  std::vector<std::string> all;
  for (bool busy = true; busy;) {
    const bool ended = wait_for_work(queue, kHeartbeat);
    const std::string mine = !ended                ? std::string(kBusy)
                             : queue.fault.empty() ? std::string(kDone)
                                                   : std::string(kFailed) + queue.fault;
    if (!comm.backend->gather_texts(comm, mine, all)) {
      stop_work(queue, "stopped");
      finish_work(queue, "", 0);
      return comm.fault;
    }
    busy = std::ranges::find(all, kBusy) != all.end();
    for (size_t rank = 0; rank < all.size() && fault.empty(); ++rank) {
      if (all[rank].starts_with(kFailed))
        fault = fmt::format("rank {}: {}", rank, std::string_view(all[rank]).substr(kFailed.size()));
    }
    if (!fault.empty()) stop_work(queue, "stopped");
  }
  finish_work(queue, "", 0);
  return fault;
}

std::string work_together(Comm& comm, std::string step, const std::function<void()>& work) {
  begin_step(comm, std::move(step));
  WorkQueue queue;
  start_work(queue, 1, [&work](WorkQueue&) { work(); });
  return finish_together(comm, queue);
}

}  // namespace tpplan
