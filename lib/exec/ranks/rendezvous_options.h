// Options that a rank needs to join a job.
#pragma once

#include <string>

namespace tpplan {

struct RendezvousOptions {
  int rank = 0;
  int world = 1;
  std::string address;  // host name or address of rank 0, IPv4 or IPv6
  int port = 0;
  int listener = -1;     // rank 0: an already listening socket, closed by the rendezvous; -1: none
  double deadline = 60;  // seconds
  std::string job;       // ranks of another job are rejected without failing this job
  std::string secret;    // shared by all ranks of the job only; empty: any process that reaches the port may join
  std::string
      agreement;  // lines that must be equal on all ranks; a mismatch is rejected, and its first line is reported
};

}  // namespace tpplan
