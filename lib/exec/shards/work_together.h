// Long work between two steps of a job: the ranks wait for each other without mistaking a slow one for a lost one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "exec/ranks/backend.h"
#include "exec/shards/work_queue.h"

namespace tpplan {

enum class ProgressKind { None, Bar, Lines };

// How far the ranks are together, while the work goes on: a bar for people (show_bar), or a line of JSON a second.
// Every rank says what it has to do; who has a kind shows it.
struct Progress {
  std::string_view title;
  uint64_t total_bytes = 0;  // of this process
  ProgressKind kind = ProgressKind::None;
};

// Shows it, not too often: `shown` says when that was, in seconds since the work began.
void show_progress(const Progress& progress, uint64_t done, uint64_t total, double seconds, double& shown);

// Waits until the threads of every rank's queue have ended, while the ranks tell each other that they are alive: a rank
// that does not is late by the deadline, however long the work takes. Called by all ranks; who has nothing to do brings
// an empty queue. When one fails all stop. Throws, the same on every rank, the first fault with its rank and step.
void finish_together(Comm& comm, WorkQueue& queue, const Progress& progress = {});

// The same for a piece of work that runs on one thread, empty for ranks that have none; what it throws is the rank's
// fault.
void work_together(Comm& comm, std::string step, const std::function<void()>& work);

}  // namespace tpplan
