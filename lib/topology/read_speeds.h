// Reads speeds of links and matmuls from all files of `tpplan check --costs --topology [AXIS=]FILE`.
#pragma once

#include <span>
#include <string>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "topology/topology.h"

namespace tpplan {

// A file and the mesh axis that it is for; empty: the axes that it names, or those with its number of ranks.
struct SpeedFile {
  std::string axis;
  SourceFile file;
};

// Combines topologies and measured timings (topology/read_timings.h), which take precedence for their axes. An axis
// without either uses the first of the topology's `links` whose `ranks` contain a group along the axis; the distance of
// its ranks is the product of the axes to its right. If it reports TP9101 to TP9106, the result is invalid.
[[nodiscard]] Topology read_speeds(std::span<const SpeedFile> files, const Mesh& mesh, Diagnostics& diagnostics);

}  // namespace tpplan
