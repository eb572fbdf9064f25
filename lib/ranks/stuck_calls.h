// The end of a process that is stuck in a call to the system (base/long_calls.h).
#pragma once

namespace tpplan {

// From now on a call that does not come back within the deadline of seconds is the failure of its rank (TP8016): the
// job is told, and this process ends. A little earlier than the deadline, so that who is stuck says so before those who
// wait for it say that it is late.
void end_when_stuck(double deadline);

}  // namespace tpplan
