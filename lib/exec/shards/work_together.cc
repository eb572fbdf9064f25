#include "exec/shards/work_together.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "exec/ranks/deadline.h"
#include "exec/ranks/gather.h"
#include "exec/ranks/ranks_sharing_memory.h"

namespace tpplan {
namespace {

// Returns the seconds between heartbeats, well within the deadline. Rank 0 receives all of them, so they are less
// frequent with many ranks.
double heartbeat(const Comm& comm) { return std::min(0.1 * std::max(1.0, comm.world / 32.0), comm.deadline / 4); }

constexpr double kSecondsALine = 1, kSecondsABar = 0.05;

// The message about a rank's work; folded over all ranks, the first error.
struct WorkState {
  bool is_busy = false;
  uint64_t done_bytes = 0, total_bytes = 0;
  std::optional<Fault> fault;
};
auto fields(WorkState& state) { return std::tie(state.is_busy, state.done_bytes, state.total_bytes, state.fault); }

void add_state(WorkState& all, WorkState more, int) {
  all.is_busy |= more.is_busy;
  all.done_bytes += more.done_bytes;
  all.total_bytes += more.total_bytes;
  if (!all.fault) all.fault = std::move(more.fault);
}

WorkState state_of(const Comm& comm, WorkQueue& queue, const Progress& progress) {
  WorkState state{.is_busy = !wait_for_work(queue, heartbeat(comm)), .total_bytes = progress.total_bytes, .fault = {}};
  state.done_bytes = queue.done_bytes;
  if (!state.is_busy && queue.fault) state.fault = with_rank_and_step(comm, *queue.fault);
  return state;
}

}  // namespace

void show_progress(const Progress& progress, uint64_t done, uint64_t total, double seconds, double& shown) {
  if (progress.kind == ProgressKind::None) return;
  if (seconds < shown + (progress.kind == ProgressKind::Bar ? kSecondsABar : kSecondsALine)) return;
  progress.kind == ProgressKind::Bar ? show_bar(progress.title, done, total, seconds)
                                     : show_line(progress.title, done, total, seconds);
  shown = seconds;
}

void finish_together(Comm& comm, WorkQueue& queue, const Progress& progress) {
  const Clock::time_point start = Clock::now();
  std::optional<Fault> fault;
  double shown = 0;
  for (bool busy = true; busy;) {
    WorkState all;
    try {
      all = fold(comm, state_of(comm, queue, progress), add_state);
    } catch (...) {
      stop_work(queue);
      join_work(queue);
      throw;
    }
    show_progress(progress, all.done_bytes, all.total_bytes, seconds_since(start), shown);
    busy = all.is_busy;
    if (!fault) fault = std::move(all.fault);
    if (fault) stop_work(queue);
  }
  join_work(queue);
  if (progress.kind == ProgressKind::Bar) clear_bar();
  if (fault) throw *fault;
}

void work_together(Comm& comm, std::string step, const std::function<void()>& work) {
  begin_step(comm, std::move(step));
  WorkQueue queue;
  start_work(queue, work ? 1 : 0, [&](WorkQueue&) {
    use_device(comm);
    work();
  });
  finish_together(comm, queue);
}

}  // namespace tpplan
