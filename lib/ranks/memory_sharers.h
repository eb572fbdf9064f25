// How the ranks of a node share its devices: whose memory is one, and which GPU is whose.
#pragma once

#include <span>

#include "ranks/backend.h"

namespace tpplan {

// The ranks that allocate from the same memory as this one, ascending, itself among them: all of its process, or of the
// host's memory all of its node. A process of one rank has its GPU for itself.
[[nodiscard]] inline std::span<const int> memory_sharers(const Comm& comm) {
  return comm.process.size() == 1 && comm.device->is_host_memory ? comm.node : comm.process;
}

// Makes the rank's device current for the calling thread: with all ranks in one process the first, else its own.
inline void use_device(const Comm& comm) { comm.device->use(comm.process.size() > 1 ? 0 : comm.local_rank); }

}  // namespace tpplan
