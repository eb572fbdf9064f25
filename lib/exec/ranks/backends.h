// Entry points of each backend: its function table, and how this process joins and leaves the job.
#pragma once

#include <string>

#include "exec/ranks/backend.h"
#include "exec/ranks/launch_options.h"
#include "exec/ranks/rank_source.h"

namespace tpplan {

// Returns the function table, or nullptr with the reason if the backend is unavailable: its library is not installed or
// the program was built without it.
[[nodiscard]] const Backend* local_backend(std::string& reason);
[[nodiscard]] const Backend* mpi_backend(std::string& reason);
[[nodiscard]] const Backend* nccl_backend(std::string& reason);

// Runs `body` on options.world threads of this process and returns how the job ended.
[[nodiscard]] JobResult run_local_ranks(const LaunchOptions& options, const Device& device, const RankBody& body);

// Connect this process's rank: they set local_rank, node, process, control and state. Throw if the job cannot be set
// up. @pre comm.rank, world, device and deadline are set.
void connect_mpi(Comm& comm, const RankIdentity& identity, const LaunchOptions& options);
void connect_nccl(Comm& comm, const RankIdentity& identity, const LaunchOptions& options);

// Calls MPI_Finalize; mpirun reports an error if a rank exits without it.
void finish_mpi(Comm& comm);

// Closes the communicators in a fixed order. After a failure they are aborted instead, when comm.state is destroyed.
void finish_nccl(Comm& comm);

}  // namespace tpplan
