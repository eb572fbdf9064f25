// Processes of this job on this node, as the system knows them: for a start that does not come to its end, before ranks
// can speak with each other. Read from /proc, of this user's own processes; what cannot be read is left out.
#pragma once

#include <string>
#include <vector>

namespace tpplan {

// A rank of this job with a process here: started by its launcher, whatever it runs.
struct NodeRank {
  int rank = 0;
  int process = 0;
  bool is_inside = false;  // its first thread has the name of the stage
  std::string program;     // of its file: "tpplan-exec", "sleep"
  std::string place;       // function of the kernel in which its first thread waits; empty: it runs, or nobody says
  bool is_still = false;   // it has had no time of a processor for a moment
};

// Gives the calling thread, a process' first, a name of at most 15 bytes, which others see in /proc, and people in
// `top`. What it was called before.
[[nodiscard]] std::string name_thread(const std::string& name);

// One process a rank, by rank. Empty where this process has no launcher, or nothing can be read.
[[nodiscard]] std::vector<NodeRank> find_node_ranks(const std::string& stage);

// "rank 1 (process 12) is not in MPI_Init and runs `sleep`; the other 2 ranks of this node are": who is not in the
// stage; where all are, who waits elsewhere than most of them; and that the job's other ranks are not seen from here.
[[nodiscard]] std::string describe(const std::vector<NodeRank>& ranks, const std::string& stage, int world);

}  // namespace tpplan
