// Processes of this job on this node, read from /proc. They explain a start that hangs before the ranks can exchange
// messages. Processes of other users and unreadable processes are skipped.
#pragma once

#include <string>
#include <vector>

namespace tpplan {

// Process of a rank of this job on this node, whatever program it executes.
struct NodeRank {
  int rank = 0;
  int process = 0;
  bool is_inside = false;  // its first thread has the name of the stage, such as MPI_Init
  std::string program;     // file name of its executable: "tpplan-exec", "sleep"
  std::string place;       // kernel function in which its first thread waits; empty if it is running or unknown
  bool is_still = false;   // it used no CPU time during the measurement
};

// Sets the name of the calling thread, truncated to 15 bytes, and returns the previous name. For the first thread of a
// process the name is visible in /proc and `top`.
[[nodiscard]] std::string name_thread(const std::string& name);

// Returns one process per rank, ordered by rank. Empty if this process has no launcher or nothing is readable.
[[nodiscard]] std::vector<NodeRank> find_node_ranks(const std::string& stage);

// Describes which ranks are in the stage and which are not: "in MPI_Init is rank 0; not there: rank 1 (process 12,
// `sleep`, runs)". If all are in it, names the ranks that wait in another kernel function than most. Counts the job's
// ranks without a process on this node.
[[nodiscard]] std::string describe(const std::vector<NodeRank>& ranks, const std::string& stage, int world);

}  // namespace tpplan
