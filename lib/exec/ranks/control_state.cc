#include "exec/ranks/control_state.h"

#include <unistd.h>

namespace tpplan {

void wake_control_thread(Control& control) {
  const uint64_t one = 1;
  if (write(control.wake, &one, sizeof one) < 0) return;  // the counter is full, so the thread wakes anyway
}

}  // namespace tpplan
