// Messages of the control channel, and how they change the state of a process. Every rank sends only to rank 0, which
// replies to all: hence all ranks see the same messages in the same order.
//
// @pre of all functions: the caller holds Control::mutex.
#pragma once

#include <chrono>
#include <vector>

#include "exec/ranks/control_state.h"
#include "exec/ranks/deadline.h"

namespace tpplan {

inline constexpr auto kStateInterval = std::chrono::milliseconds(50);  // minimum time between state messages of a rank
inline constexpr auto kHeartbeatInterval = std::chrono::milliseconds(500);  // time between heartbeats of rank 0

// Processes a message from socket `i`. Returns false if the message is malformed or unexpected.
[[nodiscard]] bool receive(Control& control, size_t i, Frame& frame);

// Records that socket `i` is disconnected. Sets a RankLost fault unless all ranks have ended.
void disconnect(Control& control, size_t i);

[[nodiscard]] Frame state_of(const Control& control);

// Returns the frames that are due now: the queued frames, the state of this rank and an unsent fault.
[[nodiscard]] std::vector<Frame> take_outbox(Control& control, Clock::time_point& last_sent);

// Sets a RankLate fault if a rank has reported a timeout to rank 0; has no effect on other ranks. Call it after all
// available messages are processed: otherwise it could blame a rank whose state is still unread.
void check_late_ranks(Control& control);

// Sets a RankLate fault if some ranks have ended and the others make no progress for the deadline. Only rank 0 calls
// it.
void check_job_end(Control& control);

// Sets the fault of the job, which is sent to all ranks. Only the first fault is stored.
void set_job_error(Control& control, Fault fault);

// Store, at rank 0, a rank's text of this round or its exit status. With the last text the round is complete, and rank
// 0's main thread folds the texts. With the last status all ranks are notified. A round that an ended rank can never
// join is an error.
void store_rank_text(Control& control, size_t rank, std::string text);
void store_rank_status(Control& control, size_t rank, int64_t status);

}  // namespace tpplan
