// Watchdog that ends a process that is stuck in a system call (base/long_calls.h).
#pragma once

namespace tpplan {

// Starts the watchdog. If a call has not returned after 0.9 of the deadline, the job gets a TP8016 fault of this rank,
// and this process ends. It acts before the deadline, so that the stuck rank is reported before the ranks that wait for
// it report it as late.
void start_stuck_watchdog(double deadline);

}  // namespace tpplan
