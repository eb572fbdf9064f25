// Checks that the shards tile every tensor, and that they equal the source byte for byte.
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

// Checks the manifest only. Returns TP8041 for each layout whose shards over all ranks do not have every byte exactly
// once (replicas aside), or whose intervals contradict its placements; with a tensor of that layout.
[[nodiscard]] std::vector<Fault> tiling_errors(const Manifest& manifest);

struct VerifyResult {
  std::optional<Fault> difference;  // TP8042: the first one in manifest order, with rank, tensor, index and bytes
  uint64_t compared_bytes = 0;      // of shards
  double seconds = 0;
};

// Reads the source again, independently of the read plan that filled the shards, and compares it with the shards of
// this process's ranks. A tied tensor is compared with all names under which it is stored. All ranks call it, with
// stores as in load_shards. Throws the same errors as load_shards.
[[nodiscard]] VerifyResult verify_shards(Comm& comm, const WeightSource& source, std::span<const ShardStore> stores,
                                         int threads, ProgressKind progress);

}  // namespace tpplan
