// How the processes of a job find each other: rank 0 listens, the others call, and all must be of one mind.
#pragma once

#include <string>
#include <vector>

namespace tpplan {

struct RendezvousOptions {
  int rank = 0;
  int world = 1;
  std::string address;  // host name or address of rank 0, IPv4 or IPv6
  int port = 0;
  int listener = -1;      // rank 0: a socket that listens already, and is closed here
  double deadline = 60;   // seconds
  std::string job;        // ranks of another job are sent away, and are not part of this one's failure
  std::string agreement;  // lines; a rank with another text is refused, and the lines that differ are named
};

// An open connection between rank 0 and each other rank.
struct RankConnections {
  int rank = 0;
  int world = 1;
  std::vector<int> sockets;          // rank 0: by rank, -1 for itself; another: one, to rank 0
  std::vector<std::string> inboxes;  // by socket: what has come behind the greeting
  std::vector<int> node;             // ranks of this node, ascending, this one among them
};

// Throws, the same on every rank that came: two ranks with one number, another world size, version or agreement
// (TP8006), ranks that have not come within the deadline (TP8005). Connections that are none of ours are closed and
// forgotten.
[[nodiscard]] RankConnections rendezvous(const RendezvousOptions& options);

}  // namespace tpplan
