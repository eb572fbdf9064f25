// Long work between two steps of a job. Heartbeats distinguish a rank that is busy from a rank that is lost.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "exec/ranks/backend.h"
#include "exec/shards/work_queue.h"

namespace tpplan {

enum class ProgressKind { None, Bar, Lines };

// The progress of all ranks together: a bar (show_bar), or a line of JSON per second. Every rank passes its own bytes;
// ranks whose `kind` is not None print the sum.
struct Progress {
  std::string_view title;
  uint64_t total_bytes = 0;  // of this process
  ProgressKind kind = ProgressKind::None;
};

// Prints the progress, unless the last output is too recent: 0.05 s for a bar, 1 s for lines. `shown` is the time of
// the last output in seconds since the start; the call updates it.
void show_progress(const Progress& progress, uint64_t done, uint64_t total, double seconds, double& shown);

// Waits until the threads of every rank's queue have ended. All ranks call it; a rank without work passes an empty
// queue. Meanwhile the ranks exchange heartbeats, so the deadline applies to a rank that does not reply, not to the
// work. If one rank fails, all stop. Throws the same fault on every rank: the first one, with its rank and step.
void finish_together(Comm& comm, WorkQueue& queue, const Progress& progress = {});

// Starts a step, executes `work` on another thread, and waits as finish_together does. All ranks call it; a rank
// without work passes an empty function. An exception of `work` is the fault of this rank.
void work_together(Comm& comm, std::string step, const std::function<void()>& work);

}  // namespace tpplan
