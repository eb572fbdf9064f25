// Rank of this process, from the environment variables of its launcher.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tpplan {

struct RankIdentity {
  int rank = 0;
  int world = 1;
  int local_rank = -1;                // index among the ranks of this node; -1: unknown
  int local_world = -1;               // ranks of this node; -1: unknown
  std::string source;                 // "torchrun", "Open MPI", "PMI", "Slurm"; empty: no launcher, a world of one rank
  std::string address = "127.0.0.1";  // address at which rank 0 listens
  int port = 29500;
  bool has_address = false;  // the environment specifies the address or the port
  std::string job;           // the launcher's name of the job; empty: unknown
  std::string secret;        // known only to the ranks of this job; empty: there is none
};

// Function that returns the value of an environment variable, or nullptr.
using Environment = std::function<const char*(const char* name)>;

// Returns the rank from the environment. Throws TP8004 if a launcher's variables are incomplete or malformed, or if two
// launchers disagree. The variables are:
//
// - torchrun: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
// - Open MPI: OMPI_COMM_WORLD_*
// - MPICH and Intel MPI: PMI_RANK, PMI_SIZE
// - srun: SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID. Only with SLURM_STEP_ID, because a batch script has a
//   SLURM_PROCID too. srun may start one launcher per node.
// - address: MASTER_ADDR, MASTER_PORT; TPPLAN_EXEC_PORT takes precedence. If torchrun's agent uses MASTER_PORT itself
//   (TORCHELASTIC_USE_AGENT_STORE), the port is the next one. In a step of srun without MASTER_ADDR, rank 0 listens on
//   the first node of SLURM_STEP_NODELIST or SLURM_JOB_NODELIST.
// - job: the first of TPPLAN_JOB_ID, TORCHELASTIC_RUN_ID and SLURM_JOB_ID that is set
// - secret: TPPLAN_EXEC_SECRET, else the random key that Open MPI 4's mpirun generates for each job
//   (OMPI_MCA_orte_precondition_transports)
[[nodiscard]] RankIdentity find_rank(const Environment& environment);

// Returns the variables that are set as human-readable text, "RANK=1 WORLD_SIZE=4 ...", with the secret hidden. Empty
// if none is set.
[[nodiscard]] std::string describe_rank_variables(const Environment& environment);

}  // namespace tpplan
