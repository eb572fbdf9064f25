// Starts the ranks: threads of this process, or this process as one rank of a job that somebody else started.
#pragma once

#include <functional>
#include <string>

#include "ranks/backend.h"

namespace tpplan {

struct LaunchOptions {
  std::string backend = "local";  // local, nccl, mpi
  std::string device = "auto";    // cpu, cuda; auto: a GPU for nccl, the CPU otherwise
  int world = 1;                  // ranks that the manifest's mesh needs
  double deadline = 60;           // seconds
  std::string agreement;  // what all ranks must agree on before the first step: manifest hash, program version, command
};

// What a rank does; returns its exit status. Called once for each rank of this process, on a thread of its own with
// `local`. A std::exception that leaves it is this rank's fault.
using RankBody = std::function<int(Comm& comm)>;

// Runs `body` on every rank that lives in this process and returns the job's exit status: 0 when every rank returned 0,
// else the largest status of this process's ranks; 1 when another rank failed or was lost, 2 when the job could not be
// set up (no such backend here, rank variables that disagree, a world of another size, ranks that disagree on
// `agreement`). `fault` says what went wrong, for people: which rank, at which step, why.
int run_ranks(const LaunchOptions& options, const RankBody& body, std::string& fault);

}  // namespace tpplan
