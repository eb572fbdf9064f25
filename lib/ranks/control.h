// The channel beside the backend's own: between the processes of a job, over rank 0. It carries texts, says where every
// rank stands, and makes a failure or a lost rank known to all at once.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ranks/backend.h"
#include "ranks/deadline.h"
#include "ranks/rendezvous.h"

namespace tpplan {

// Meets the other ranks, and opens the channel: comm.control, node, process and local_rank (where it is below 0) are
// set and comm.device made current. Throws where the job cannot be set up.
void join_job(Comm& comm, const RendezvousOptions& options);

// Backend::publish_state and Backend::fold_texts of backends whose ranks are processes.
void publish_state_by_control(Comm& comm);
[[nodiscard]] bool fold_texts_by_control(Comm& comm, std::string_view mine, const TextFold& fold, std::string& agreed);

// For a loop that waits for something since `start`: false when the wait is over for want of it, after which comm.fault
// names who is gone, failed, or late by `seconds`. Costs next to nothing.
[[nodiscard]] bool may_wait(Comm& comm, Clock::time_point start, double seconds);

// Every rank's last call: waits until all have come, or failed, or none moves on for comm.deadline seconds. True when
// all have come with status 0.
[[nodiscard]] bool end_together(Comm& comm, int status);

}  // namespace tpplan
