// The time of a collective over a mesh axis whose ranks are on one host or on several.
#pragma once

#include "sharding/redistribute.h"
#include "topology/topology.h"

namespace tpplan {

// The path of a ring over the ranks of an axis.
struct AxisPath {
  double bandwidth = 0;  // bytes a second of a rank
  double latency = 0;    // seconds of all hops of the ring
};

// Returns the path of the groups along an axis. Rings between hosts share the adapters of their hosts: the g ranks of a
// group on a host use g shares of the host's bandwidth together, up to the link inside the host.
[[nodiscard]] AxisPath axis_path(const Topology& topology, const Mesh& mesh, AxisId axis);

// Returns the seconds of a call over an axis: a constant, the hops of the ring and the bytes.
[[nodiscard]] double ring_seconds(CollectiveKind kind, double payload, int64_t ranks, const AxisPath& path);

}  // namespace tpplan
