// Thread of the control channel between the processes of a job. Rank 0 is the coordinator: its thread has the state of
// all ranks and replies to all. The other threads exchange messages only with rank 0.
#pragma once

#include <memory>

#include "exec/ranks/control_state.h"

namespace tpplan {

// Starts the control thread on the connections of a rendezvous. When the last owner releases the result, the remaining
// frames are sent and the channel closes.
[[nodiscard]] std::shared_ptr<Control> open_control(RankConnections connections, double deadline);

// Reports a fault to the job of this process, if the process has joined one. Safe from any thread. Returns when the
// fault is sent or after a timeout.
void report_to_job(const Fault& fault);

// Sends the current step to rank 0 from the rank's own thread. The process could die before the control thread sends
// it.
void send_state_now(Control& control);

}  // namespace tpplan
