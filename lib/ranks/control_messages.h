// What the messages of the channel between processes say, and what they do to the state that a process keeps. Rank 0
// hears all and answers all; the others speak with it alone, so that any two ranks know the same, in one order.
//
// Everything here is called with Control::mutex held.
#pragma once

#include <chrono>
#include <vector>

#include "ranks/control_thread.h"
#include "ranks/deadline.h"

namespace tpplan {

inline constexpr auto kStateInterval = std::chrono::milliseconds(50);       // how often a rank's state is sent at most
inline constexpr auto kHeartbeatInterval = std::chrono::milliseconds(500);  // how often rank 0 says that it is there

// Takes in a message from the peer behind socket `i`; false for one that it cannot say.
[[nodiscard]] bool receive(Control& control, size_t i, Frame& frame);

// The rank behind socket `i` is gone: a failure, unless all have ended.
void disconnect(Control& control, size_t i);

[[nodiscard]] Frame state_of(const Control& control);

// What is to be sent now.
[[nodiscard]] std::vector<Frame> take_outbox(Control& control, Clock::time_point& last_sent);

// At rank 0, when all that has come is taken in: fails for who has waited too long. What was heard of the others stands
// behind that when rank 0 itself did not listen for a while.
void answer_late(Control& control);

// At rank 0: a failure when some have ended and the others do not move on.
void check_end(Control& control);

// The first failure stands and is sent to all.
void set_fault(Control& control, Fault fault);

// At rank 0: a rank's text of this round, and its end. When all texts are there rank 0's own thread folds them; when
// all have ended all are told. A round that somebody will never come to is a failure.
void take_text(Control& control, size_t rank, std::string text);
void take_end(Control& control, size_t rank, int64_t status);

}  // namespace tpplan
