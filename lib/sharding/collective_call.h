// One call of a collective in one training step, as rank 0 makes it: what the walk forecasts, a manifest lists and its
// readers count.
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
  bool hidden = false;  // no rule asks for it: DTensor makes it inside of an operation whose operands do not fit
  bool operator==(const CollectiveCall&) const = default;
};

// What nccl-tests calls the size of a call: its input, and of all_gather what it puts out (doc/PERFORMANCE.md of
// NVIDIA/nccl-tests). `ranks` are those of the axis. kTooManyBytes where that leaves 64 bits.
[[nodiscard]] uint64_t payload_bytes(const CollectiveCall& call, int64_t ranks);

}  // namespace tpplan
