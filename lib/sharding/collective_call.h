// One collective call of rank 0 in one training step: the walk forecasts it, the manifest lists it, and the readers of
// the manifest count its bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sharding/redistribute.h"

namespace tpplan {

struct CollectiveCall {
  bool backward = false;
  CollectiveKind kind{};  // never LocalSlice, which communicates nothing
  AxisId axis = kNoAxis;
  std::string module;
  std::vector<int64_t> shape;  // of its input
  std::string dtype;
  int64_t bytes = 0;    // of its input
  bool hidden = false;  // no rule requires it: DTensor redistributes operands whose placements do not fit the operation
  std::string operation{};  // of a hidden call: whose operands or gradients are redistributed
  bool operator==(const CollectiveCall&) const = default;
};

// Returns the size of a call in bytes as nccl-tests defines it: the output of all_gather, the input of the others
// (NVIDIA/nccl-tests, doc/PERFORMANCE.md). `ranks` is the size of the axis. kTooManyBytes if it exceeds 64 bits.
[[nodiscard]] uint64_t payload_bytes(const CollectiveCall& call, int64_t ranks);

}  // namespace tpplan
