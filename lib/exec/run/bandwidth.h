// Algorithm and bus bandwidth of a collective, as nccl-tests reports them (NVIDIA/nccl-tests, doc/PERFORMANCE.md).
#pragma once

#include <cstdint>

#include "sharding/redistribute.h"

namespace tpplan {

struct Bandwidth {
  double algorithm = 0;  // bytes per second: `bytes` / `seconds`
  double bus = 0;  // times the part of the data that crosses a link: 2 (n - 1) / n for all_reduce, (n - 1) / n for the
                   // others, 0 for a slice
};

// Returns the bandwidths of one collective. `bytes` is the larger buffer of a rank: the output of all_gather, the input
// of reduce_scatter, the buffer of all_reduce, all_to_all and slice. `ranks` is the size of the group.
[[nodiscard]] Bandwidth bandwidth_of(CollectiveKind kind, uint64_t bytes, double seconds, int ranks);

}  // namespace tpplan
