// Rendezvous of the processes of a job: rank 0 listens, the other ranks connect, and all must agree on the job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/ranks/rendezvous_options.h"

namespace tpplan {

// Connections to rank 0 that were closed because they do not belong to a rank of this job.
struct RejectedConnections {
  uint64_t count = 0;
  std::string last;    // address of the last one
  std::string reason;  // why the first rejected rank does not match; empty: no such rank
};

// Returns "2 connections to rank 0 were not of a rank of this job, the last from 10.0.0.7".
[[nodiscard]] std::string to_text(const RejectedConnections& strangers);

// Open connections between rank 0 and each other rank.
struct RankConnections {
  int rank = 0;
  int world = 1;
  std::vector<int> sockets;          // rank 0: by rank, -1 for itself; other ranks: one, to rank 0
  std::vector<std::string> inboxes;  // by socket: bytes received after the handshake
  std::vector<int> node;             // ranks of this node, ascending, including this one
  RejectedConnections strangers;     // only at rank 0
};

// Connects this process with the other ranks. All connected ranks throw the same fault: TP8006 if two processes have
// the same rank, or if the world size, version or agreement differ; TP8005 if ranks are missing at the deadline.
//
// A mismatched rank that has the job's secret fails the job at once. Without a secret, any stranger could do that: rank
// 0 rejects only the sender, and reports it at the deadline if a rank is missing then. Other connections are counted,
// and closed after kHelloSeconds.
inline constexpr double kHelloSeconds = 5;
[[nodiscard]] RankConnections rendezvous(const RendezvousOptions& options);

}  // namespace tpplan
