// Control channel between the processes of a job, separate from the backend's collectives and routed through rank 0. It
// carries texts and the step of every rank, and reports a failure or a lost rank to all ranks.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exec/ranks/backend.h"
#include "exec/ranks/deadline.h"
#include "exec/ranks/rendezvous.h"

namespace tpplan {

// Connects to the other ranks and opens the control channel. Sets comm.control, node and process, and local_rank if it
// is negative; selects the device. Throws if the job cannot be set up.
void join_job(Comm& comm, const RendezvousOptions& options);

// Implement Backend::publish_state and Backend::fold_texts for backends with one process per rank.
void publish_state_by_control(Comm& comm);
[[nodiscard]] bool fold_texts_by_control(Comm& comm, std::string_view mine, const TextFold& fold, std::string& agreed);

// Returns false if a loop that has waited since `start` must stop: after a failure, or after `seconds`. comm.fault then
// names the rank that failed, is lost or is late. It is cheap enough to be polled.
[[nodiscard]] bool may_keep_waiting(Comm& comm, Clock::time_point start, double seconds);

// Final call of every rank: waits until all ranks have called it, a rank fails, or no rank makes progress for
// comm.deadline seconds. True if every rank ended with status 0.
[[nodiscard]] bool finish_job(Comm& comm, int status);

}  // namespace tpplan
