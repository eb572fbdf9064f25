// Bytes that one training step communicates according to the manifest: parameters, gradients, module boundaries.
#pragma once

#include <cstdint>
#include <vector>

#include "manifest/manifest.h"

namespace tpplan {

// Bytes of one training step over one axis on rank 0, which has the largest shards: the sum over the manifest's steps.
// Slices communicate nothing and are omitted.
struct AxisTraffic {
  AxisId axis = kNoAxis;
  StepPart part{};
  CollectiveKind kind{};
  uint64_t tensors = 0;  // a tensor with several such steps counts once for each
  uint64_t times = 1;    // in a training step
  uint64_t payload = 0;  // of all tensors, once: the larger buffer of each collective
  uint64_t sent = 0;     // by a rank in a training step, in a ring algorithm
};

// The number of collectives of one kind at module boundaries. Their bytes depend on the batch size, which a manifest
// does not have.
struct BoundaryTraffic {
  bool backward = false;
  CollectiveKind kind{};
  AxisId axis = kNoAxis;
  uint64_t count = 0;
};

struct TrafficMeasure {
  std::vector<AxisTraffic> axes;            // sorted by axis, part and kind; no empty rows
  std::vector<BoundaryTraffic> boundaries;  // sorted by direction, kind and axis; no empty rows
  bool overflow = false;                    // a sum exceeds 64 bits: everything above is invalid
};

[[nodiscard]] TrafficMeasure measure_traffic(const Manifest& manifest);

}  // namespace tpplan
