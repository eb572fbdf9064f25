// Starts the ranks: threads of this process, or this process as one rank of a job that somebody else started.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ranks/backend.h"

namespace tpplan {

struct LaunchOptions {
  std::string backend = "local";  // local, nccl, mpi
  std::string device = "auto";    // cpu, cuda; auto: a GPU for nccl, the CPU otherwise
  int world = 1;                  // ranks that the manifest's mesh needs
  double deadline = 60;           // seconds
  double start_deadline = 300;    // seconds that NCCL may take to connect ranks: minutes where there are thousands
  std::string agreement;  // what all ranks must agree on before the first step: manifest hash, program version, command
};

// What a rank does; returns its exit status. Called once for each rank of this process, on a thread of its own with
// `local`. What it throws is this rank's fault.
using RankBody = std::function<int(Comm& comm)>;

// How a job ended. `status`: 0 when every rank returned 0, else the largest status of this process's ranks, at least 1
// when another rank did not end with 0, and what the fault's code calls for (exit_status).
struct JobEnd {
  int status = 0;
  std::optional<Fault> fault;
  bool has_begun = false;  // the ranks have met; a fault before that may be this rank's alone, or that of all
};

// Runs `body` on every rank that lives in this process. A job that cannot be set up ends with a fault, too (TP8001 to
// TP8006).
[[nodiscard]] JobEnd run_ranks(const LaunchOptions& options, const RankBody& body);

// The backends that there are, in the order of their table.
[[nodiscard]] std::vector<std::string> backend_names();

}  // namespace tpplan
