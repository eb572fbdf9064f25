// Bytes that one training step moves, as far as a manifest says it: parameters, gradients, module boundaries.
#pragma once

#include <cstdint>
#include <vector>

#include "manifest/manifest.h"

namespace tpplan {

// Bytes of one training step over one axis, on rank 0, whose pieces are the largest: the manifest's steps, added up.
// Slices move nothing and are left out.
struct AxisTraffic {
  AxisId axis = kNoAxis;
  StepPart part{};
  CollectiveKind kind{};
  uint64_t tensors = 0;  // a tensor that takes several such steps counts for each
  uint64_t times = 1;    // in a training step
  uint64_t payload = 0;  // of all tensors once: what is summed, or what a gather gives or a scatter takes
  uint64_t sent = 0;     // by a rank in a training step, as rings do it
};

// How often a collective stands at the modules' boundaries. Its bytes depend on the batch, of which a manifest says
// nothing.
struct BoundaryTraffic {
  bool backward = false;
  CollectiveKind kind{};
  AxisId axis = kNoAxis;
  uint64_t count = 0;
};

struct TrafficMeasure {
  std::vector<AxisTraffic> axes;            // by axis, part and kind, only what there is
  std::vector<BoundaryTraffic> boundaries;  // by direction, kind and axis, only what there is
  bool overflow = false;                    // a sum leaves 64 bits: nothing above is to be used
};

[[nodiscard]] TrafficMeasure measure_traffic(const Manifest& manifest);

}  // namespace tpplan
