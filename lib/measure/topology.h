// What the machines can do: how fast ranks talk along the mesh's axes, and how fast they multiply.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sharding/dtype.h"
#include "sharding/mesh.h"

namespace tpplan {

// Of one rank: bytes a second that it sends while it receives as much, and seconds for a hop.
struct LinkSpeed {
  double bandwidth = 0;
  double latency = 0;
  size_t timings = 0;  // of which both were made; 0: a file says them
};

struct Topology {
  std::string name;
  std::string device;                          // a part of the names of its devices, where a file says one
  std::vector<std::pair<DType, double>> peak;  // operations a second; of nobody where only links were measured
  double efficiency = 1;                       // share of the peak that products reach
  std::vector<LinkSpeed> axes;                 // by axis of the mesh; those of size 1 have none
};

// Of products of this type; of one that has no figure the slowest there is.
[[nodiscard]] double peak_of(const Topology& topology, DType dtype);

}  // namespace tpplan
