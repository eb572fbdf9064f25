// How long a step takes rank 0 on machines of a topology: products by their operations, collectives as rings do them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "manifest/step_costs.h"
#include "measure/topology.h"
#include "sharding/collective_call.h"

namespace tpplan {

// Seconds of one call over n ranks, of a payload of S bytes (nccl-tests' size), with a seconds a hop and B bytes a
// second (NVIDIA/nccl-tests, doc/PERFORMANCE.md; Thakur, Rabenseifner, Gropp 2005):
//
//   all_reduce                                  2 (n-1) a + 2 (n-1)/n S/B
//   all_gather, reduce_scatter, all_to_all        (n-1) a +   (n-1)/n S/B
[[nodiscard]] double call_seconds(const CollectiveCall& call, int64_t ranks, const LinkSpeed& link);

struct AxisTime {
  AxisId axis = kNoAxis;
  uint64_t calls = 0;
  double seconds = 0;
  bool overlaps = false;  // over data axes: nothing waits for them but the module that follows
  LinkSpeed link;
};

// What layers that are alike take, each.
struct LayerTime {
  std::string layers;  // as in LayerCosts
  uint64_t count = 1;
  double forward = 0, backward = 0, communication = 0;
};

struct StepTime {
  bool has_products = false;         // the topology says how fast they are; else they count for nothing
  double forward = 0, backward = 0;  // products; `backward` with what `remat` computes again
  std::vector<AxisTime> axes;        // in mesh order, those that are used
  std::vector<LayerTime> layers;
  double waited = 0;  // for collectives on the critical path
  double hidden = 0;  // that may run beside products
  double total = 0;   // products and what is waited for
};

// `data_axes`: those whose calls may overlap.
[[nodiscard]] StepTime measure_time(std::span<const CollectiveCall> calls, const Mesh& mesh, const StepCosts& costs,
                                    std::span<const AxisId> data_axes, const Topology& topology);

}  // namespace tpplan
