// Proof that shards are what they should be: that they tile every tensor, that they equal their source byte for byte.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/ranks/backend.h"
#include "exec/shards/shard_store.h"
#include "exec/shards/weight_source.h"
#include "exec/shards/work_together.h"

namespace tpplan {

// From the manifest alone: TP8041 for each layout whose shards, over all ranks, do not hold every byte exactly once
// (replicas apart), with a tensor of it.
[[nodiscard]] std::vector<Fault> tiling_faults(const Manifest& manifest);

struct VerifyResult {
  std::optional<Fault> difference;  // TP8042, the first by the order of the manifest: rank, tensor, index, bytes
  uint64_t compared_bytes = 0;      // of shards
  double seconds = 0;
};

// Reads the source again, from its first byte to its last and without the plan that the shards were filled by, and
// compares it with what the ranks of this process hold of it. A tied tensor is compared with all the names under which
// it is stored. Called by all ranks of the job, with shards as load_shards. Throws as that does.
[[nodiscard]] VerifyResult verify_shards(Comm& comm, const WeightSource& source, std::span<const ShardStore> stores,
                                         int threads, ProgressKind progress);

}  // namespace tpplan
