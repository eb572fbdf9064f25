// NCCL's communicators: one for each group of ranks, none of which blocks.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "device/nccl_library.h"
#include "ranks/backend.h"

namespace tpplan {

// Joins the communicator of all ranks and makes comm.state, from which nccl_communicator takes them. All ranks call it,
// with the control channel open. False with comm.fault set.
[[nodiscard]] bool open_nccl(Comm& comm, const NcclLibrary& library);

// Closes all communicators in order, once no rank has failed. Those that are open when comm.state goes are aborted.
void close_nccl(Comm& comm);

// Whether NCCL has done a call, or goes on with it: communicators that do not block say so.
[[nodiscard]] inline bool is_accepted(NcclResult result) {
  return result == NcclResult::Success || result == NcclResult::InProgress;
}

// The library that the rank's communicators are of.
const NcclLibrary& nccl_of(const Comm& comm);

// The communicator of the group, made at its first use by its ranks alone; a group has at least two ranks. nullptr with
// comm.fault set.
[[nodiscard]] NcclComm nccl_communicator(Comm& comm, const Group& group);

// Queues the calls of `queue` as one group and waits until their work is done. False with comm.fault set, and all of
// this rank's communicators aborted: NCCL reports an error, another rank fails or is gone, or the deadline passes.
// `what` names the calls: "ncclAllGather".
[[nodiscard]] bool run_nccl(Comm& comm, NcclComm communicator, const char* what,
                            const std::function<NcclResult()>& queue);

}  // namespace tpplan
