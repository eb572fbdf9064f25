// The backends, one pair of functions each: the table of what they do, and how a rank of this process joins its job.
#pragma once

#include <string>

#include "ranks/backend.h"
#include "ranks/launch.h"
#include "ranks/rank_source.h"

namespace tpplan {

// nullptr with the reason where the backend cannot work here: a library that is not installed, a program built without
// it.
[[nodiscard]] const Backend* local_backend(std::string& reason);
[[nodiscard]] const Backend* mpi_backend(std::string& reason);
[[nodiscard]] const Backend* nccl_backend(std::string& reason);

// Runs `body` on options.world threads of this process, as run_ranks does.
[[nodiscard]] JobEnd run_local_ranks(const LaunchOptions& options, const Device& device, const RankBody& body);

// Bring up the backend for this process's rank: comm.rank, world, device and deadline are set, the device is current.
// They set local_rank, node, process, control and state, and throw where the job cannot be set up.
void connect_mpi(Comm& comm, const RankIdentity& who, const LaunchOptions& options);
void connect_nccl(Comm& comm, const RankIdentity& who, const LaunchOptions& options);

// MPI_Finalize, which mpirun expects of ranks that end well.
void finish_mpi(Comm& comm);

// Closes the communicators in order; after a failure they are aborted instead.
void finish_nccl(Comm& comm);

}  // namespace tpplan
