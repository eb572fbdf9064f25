// Devices that the ranks of a node share: which ranks allocate from the same memory, and which rank uses which GPU.
#pragma once

#include <span>

#include "exec/ranks/backend.h"

namespace tpplan {

// Returns the ranks that allocate from the same memory as this one, ascending, including itself. These are the ranks of
// its process or, with host memory and one rank per process, the ranks of its node.
[[nodiscard]] inline std::span<const int> ranks_sharing_memory(const Comm& comm) {
  return comm.process.size() == 1 && comm.device->is_host_memory ? comm.node : comm.process;
}

// Selects the rank's device for the calling thread: device 0 if all ranks share a process, else device local_rank.
inline void use_device(const Comm& comm) { comm.device->use(comm.process.size() > 1 ? 0 : comm.local_rank); }

}  // namespace tpplan
