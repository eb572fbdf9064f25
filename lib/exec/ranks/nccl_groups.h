// NCCL communicators: one non-blocking communicator per group of ranks.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "exec/device/nccl_library.h"
#include "exec/ranks/backend.h"

namespace tpplan {

// Joins the communicator of all ranks and creates comm.state, in which nccl_communicator caches the others. All ranks
// must call it. Returns false with comm.fault set. @pre the control channel is open.
[[nodiscard]] bool open_nccl(Comm& comm, const NcclLibrary& library);

// Closes all communicators in a fixed order. @pre no rank has failed. Communicators that are still open when comm.state
// is destroyed are aborted.
void close_nccl(Comm& comm);

// True if NCCL has completed a call or still works on it; non-blocking communicators return InProgress.
[[nodiscard]] inline bool is_accepted(NcclResult result) {
  return result == NcclResult::Success || result == NcclResult::InProgress;
}

// Returns the library of the rank's communicators.
const NcclLibrary& nccl_of(const Comm& comm);

// Returns the communicator of the group, created at the first use. Only the group's ranks call it. Returns nullptr with
// comm.fault set. @pre the group has at least two ranks.
[[nodiscard]] NcclComm nccl_communicator(Comm& comm, const Group& group);

// Queues the calls of `queue` as one NCCL group and waits for their completion. `what` names the calls in errors, such
// as "ncclAllGather". Returns false with comm.fault set if NCCL reports an error, another rank fails or is lost, or the
// deadline passes. All communicators of this rank are aborted then.
[[nodiscard]] bool run_nccl(Comm& comm, NcclComm communicator, const char* what,
                            const std::function<NcclResult()>& queue);

}  // namespace tpplan
