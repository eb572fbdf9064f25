// Options of a job, the function that each rank executes, and the result of a job.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "exec/ranks/backend.h"

namespace tpplan {

struct LaunchOptions {
  std::string backend = "local";  // local, nccl, mpi
  std::string device = "auto";    // cpu, cuda; auto: a GPU for nccl, the CPU otherwise
  int world = 1;                  // ranks of the manifest's mesh
  double deadline = 60;           // seconds
  double start_deadline = 300;    // seconds that NCCL may take to connect ranks: minutes with thousands of ranks
  std::string agreement;  // must be equal on all ranks before the first step: manifest hash, program version, command
};

// Function that each rank executes; returns its exit status. It is called once per rank of this process, with `local`
// on a separate thread. An exception is a fault of this rank.
using RankBody = std::function<int(Comm& comm)>;

// Result of a job. `status` is 0 if every rank returned 0. Otherwise it is the maximum of: the statuses of this
// process's ranks, 1, and the exit status of the fault's code (exit_status).
struct JobResult {
  int status = 0;
  std::optional<Fault> fault;
  bool has_begun = false;  // all ranks are connected; an earlier fault may exist on this rank only, or on all ranks
};

}  // namespace tpplan
