// How fast links and products are, out of all files that say it: `tpplan check --costs --topology [AXIS=]FILE`.
#pragma once

#include <span>
#include <string>

#include "base/source_file.h"
#include "diagnostics/diagnostics.h"
#include "measure/topology.h"

namespace tpplan {

// A file and the axis of the mesh that it is for; empty: those that it names, or that have its ranks.
struct SpeedFile {
  std::string axis;
  SourceFile file;
};

// A topology says figures; what a program measured (cost/read_timings.h) stands above them, for the axes that it is of.
// An axis of which neither speaks takes the first of the topology's `links` whose `ranks` hold all ranks of a group
// along it, which stand (product of the axes behind it) apart. Reports TP9101 to TP9106; nothing of the result is to be
// used then.
[[nodiscard]] Topology read_speeds(std::span<const SpeedFile> files, const Mesh& mesh, Diagnostics& diagnostics);

}  // namespace tpplan
