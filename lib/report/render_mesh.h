// Draws the mesh: its ranks on their hosts, and the axes whose collectives cross the network.
#pragma once

#include <string>

#include "sharding/mesh.h"
#include "topology/topology.h"

namespace tpplan {

// Returns the ranks of the first hosts, and a list of the axes. `topology` is on the mesh.
[[nodiscard]] std::string mesh_picture(const Mesh& mesh, const Topology& topology);

}  // namespace tpplan
