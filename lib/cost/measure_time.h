// The time of a step on rank 0 for a topology: matmuls by their FLOPs, collectives by the formulas of rings.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "manifest/step_costs.h"
#include "sharding/collective_call.h"
#include "topology/topology.h"

namespace tpplan {

// Returns the seconds of one call over n ranks with a payload of S bytes (nccl-tests' size), a seconds for each hop and
// B bytes for each second (NVIDIA/nccl-tests, doc/PERFORMANCE.md; Thakur, Rabenseifner, Gropp 2005):
//
//   all_reduce                                  2 (n-1) a + 2 (n-1)/n S/B
//   all_gather, reduce_scatter, all_to_all        (n-1) a +   (n-1)/n S/B
[[nodiscard]] double call_seconds(const CollectiveCall& call, int64_t ranks, const LinkSpeed& link);

struct AxisTime {
  AxisId axis = kNoAxis;
  uint64_t calls = 0;
  double seconds = 0;
  bool overlaps = false;  // over data axes: only the next module waits for them
  LinkSpeed link;
};

// The time of each of a group of identical layers.
struct LayerTime {
  std::string layers;  // as in LayerCosts
  uint64_t count = 1;
  double forward = 0, backward = 0, communication = 0;
};

struct StepTime {
  bool has_matmul_speed = false;     // the topology has the speed of matmuls; otherwise they count as 0
  double forward = 0, backward = 0;  // of matmuls; `backward` includes the recomputation of `remat`
  std::vector<AxisTime> axes;        // in mesh order, those that are used
  std::vector<LayerTime> layers;
  double waited = 0;  // collectives on the critical path
  double hidden = 0;  // collectives that can overlap with matmuls
  double total = 0;   // matmuls and collectives on the critical path
};

// `data_axes`: axes whose calls can overlap with computation.
[[nodiscard]] StepTime measure_time(std::span<const CollectiveCall> calls, const Mesh& mesh, const StepCosts& costs,
                                    std::span<const AxisId> data_axes, const Topology& topology);

}  // namespace tpplan
