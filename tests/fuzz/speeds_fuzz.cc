// Any bytes as a file of `--topology`: figures, the table of nccl-tests, or timings of a run. Accepted speeds exist for
// every axis that communicates, and are finite numbers.
#include <cmath>

#include "fuzz_input.h"
#include "mutate_tree.h"
#include "topology/read_speeds.h"

TPPLAN_MUTATE_AS(tpplan::InputForm::JsonOrYaml)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tpplan;
  const Mesh mesh{.axes = {{"dp", 2}, {"tp", 8}}};
  for (const char* axis : {"", "tp"}) {
    const SpeedFile file{axis, fuzz_file("speeds", data, size)};
    Diagnostics diagnostics;
    const Topology topology = read_speeds({&file, 1}, mesh, diagnostics);
    show(diagnostics, sources_of(file.file));
    if (has_errors(diagnostics)) continue;
    require(topology.axes.size() == mesh.axes.size(), "every axis has a speed");
    for (const LinkSpeed& link : topology.axes)
      require(std::isfinite(link.bandwidth) && link.bandwidth > 0 && std::isfinite(link.latency) && link.latency >= 0,
              "a speed is a number that can be divided by");
  }
  return 0;
}
