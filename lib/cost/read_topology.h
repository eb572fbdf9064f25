// Topology files: `tpplan check --costs --topology topo.yaml`.
#pragma once

#include <vector>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "measure/topology.h"

namespace tpplan {

inline constexpr std::string_view kTopologyFormat = "tpplan.topology/1";

// A link and how many ranks in a row it joins; 0: all.
struct RankLink {
  int64_t ranks = 0;
  LinkSpeed speed;
};

// What files have said so far. Axes that are not `known` have no speed yet.
struct SpeedTable {
  Topology topology;
  std::vector<bool> known;  // by axis
  std::vector<RankLink> links;
};

// `axes` of the file name axes of the mesh; `links` hold for those that nobody names. Reports TP9101 and TP9102;
// nothing of the table is to be used then.
void read_topology(const SourceFile& file, const Mesh& mesh, SpeedTable& table, Diagnostics& diagnostics);

}  // namespace tpplan
