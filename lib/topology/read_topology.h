// Topology files: `tpplan check --costs --topology topo.yaml`.
#pragma once

#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "topology/topology.h"

namespace tpplan {

inline constexpr std::string_view kTopologyFormat = "tpplan.topology/1";

// The speeds read so far. Axes that are not `known` have none yet.
struct SpeedTable {
  Topology topology;
  std::vector<bool> known;  // by axis
};

// Reads a topology file: `axes` has speeds by mesh axis, `links` applies to the other axes. If it reports TP9101 or
// TP9102, the table is invalid.
void read_topology(const SourceFile& file, const Mesh& mesh, SpeedTable& table, Diagnostics& diagnostics);

}  // namespace tpplan
