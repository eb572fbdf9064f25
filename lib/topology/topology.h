// The speeds of a cluster: links along the mesh axes, and matmuls.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sharding/dtype.h"
#include "sharding/mesh.h"

namespace tpplan {

// The link of one rank: bytes for each second in each direction at the same time, and seconds for each hop.
struct LinkSpeed {
  double bandwidth = 0;
  double latency = 0;
  size_t timings = 0;  // number of timings that both were fitted to; 0: read from a file
};

struct Topology {
  std::string name;
  std::string device;                          // a substring of the device names; empty if no file has one
  std::vector<std::pair<DType, double>> peak;  // FLOP/s by dtype; empty if only links were measured
  double efficiency = 1;                       // share of the peak that matmuls reach
  std::vector<LinkSpeed> axes;                 // by mesh axis; unset for axes of size 1
};

// Returns the peak FLOP/s of matmuls of this dtype; the slowest peak if the dtype has none.
[[nodiscard]] double peak_of(const Topology& topology, DType dtype);

}  // namespace tpplan
