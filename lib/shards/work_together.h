// Long work between two steps of a job: the ranks wait for each other without mistaking a slow one for a lost one.
#pragma once

#include <functional>
#include <string>

#include "ranks/backend.h"
#include "shards/work_queue.h"

namespace tpplan {

// Waits until the threads of every rank's queue have ended, while the ranks tell each other that they are alive. Called
// by all ranks. When one fails all stop. Throws, the same on every rank, the first fault with its rank and step.
void finish_together(Comm& comm, WorkQueue& queue);

// The same for a piece of work that runs on one thread; what it throws is the rank's fault.
void work_together(Comm& comm, std::string step, const std::function<void()>& work);

}  // namespace tpplan
