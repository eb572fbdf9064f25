// Whose memory is one: for those who ask whether something fits before they allocate it.
#pragma once

#include <span>

#include "ranks/backend.h"

namespace tpplan {

// The ranks that allocate from the same memory as this one, ascending, itself among them: all of its process, or on the
// CPU all of its node. A process of one rank has its GPU for itself.
inline std::span<const int> memory_sharers(const Comm& comm) {
  return comm.process.size() == 1 && comm.device == &cpu_device() ? comm.node : comm.process;
}

}  // namespace tpplan
