// Which rank this process is, from what its launcher put into the environment.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tpplan {

struct RankIdentity {
  int rank = 0;
  int world = 1;
  int local_rank = -1;                // among this node's; -1: not said
  int local_world = -1;               // ranks of this node; -1: not said
  std::string source;                 // "torchrun", "Open MPI", "PMI", "Slurm"; empty: no launcher, a world of one
  std::string address = "127.0.0.1";  // where rank 0 listens
  int port = 29500;
  bool has_address = false;  // somebody chose the address
  std::string job;           // what its launcher calls the job; empty: it says nothing
};

// The value of an environment variable, or nullptr.
using Environment = std::function<const char*(const char* name)>;

// Reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE (torchrun), OMPI_COMM_WORLD_* (Open MPI), PMI_RANK and PMI_SIZE
// (MPICH, Intel MPI), SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID (srun: only with SLURM_STEP_ID, a batch script has a
// SLURM_PROCID of its own), and MASTER_ADDR, MASTER_PORT. Where torchrun's agent holds MASTER_PORT itself
// (TORCHELASTIC_USE_AGENT_STORE) the port is the next one; TPPLAN_EXEC_PORT sets another. srun may start one launcher a
// node; without MASTER_ADDR rank 0 of a step of srun listens on the first node of SLURM_STEP_NODELIST or
// SLURM_JOB_NODELIST. The job is called by the first of TPPLAN_JOB_ID, TORCHELASTIC_RUN_ID and SLURM_JOB_ID that is
// set. Throws TP8004: a source that is incomplete or malformed, two that disagree.
[[nodiscard]] RankIdentity find_rank(const Environment& environment);

// The variables that are set, "RANK=1 WORLD_SIZE=4 ...", for people; empty when none is.
[[nodiscard]] std::string describe_rank_variables(const Environment& environment);

}  // namespace tpplan
