#include "shards/work_together.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "ranks/deadline.h"
#include "ranks/gather.h"

namespace tpplan {
namespace {

// Seconds between signs of life, well within the deadline. All hear all, so that many ranks say it less often.
double heartbeat(const Comm& comm) { return std::min(0.1 * std::max(1.0, comm.world / 32.0), comm.deadline / 4); }

// What a rank says of its work.
struct WorkState {
  bool is_busy = false;
  std::optional<Fault> fault;
};
auto members(WorkState& state) { return std::tie(state.is_busy, state.fault); }

WorkState state_of(const Comm& comm, WorkQueue& queue) {
  WorkState state{.is_busy = !wait_for_work(queue, heartbeat(comm)), .fault = {}};
  if (!state.is_busy && queue.fault) state.fault = located(comm, *queue.fault);
  return state;
}

}  // namespace

void finish_together(Comm& comm, WorkQueue& queue, const Progress& progress) {
  const Clock::time_point start = Clock::now();
  std::optional<Fault> fault;
  for (bool busy = true; busy;) {
    std::vector<WorkState> all;
    try {
      all = gather(comm, state_of(comm, queue));
    } catch (...) {
      stop_work(queue);
      join_work(queue);
      throw;
    }
    if (!progress.title.empty()) show_bar(progress.title, queue.done_bytes, progress.total_bytes, seconds_since(start));
    busy = std::ranges::any_of(all, &WorkState::is_busy);
    const auto failed = std::ranges::find_if(all, [](const WorkState& state) { return state.fault.has_value(); });
    if (!fault && failed != all.end()) fault = failed->fault;
    if (fault) stop_work(queue);
  }
  join_work(queue);
  if (!progress.title.empty()) clear_bar();
  if (fault) throw *fault;
}

void work_together(Comm& comm, std::string step, const std::function<void()>& work) {
  begin_step(comm, std::move(step));
  WorkQueue queue;
  start_work(queue, work ? 1 : 0, [&work](WorkQueue&) { work(); });
  finish_together(comm, queue);
}

}  // namespace tpplan
