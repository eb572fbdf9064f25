// Proof that shards are what they should be: that they tile every tensor, that they equal their source byte for byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ranks/backend.h"
#include "shards/open_weights.h"
#include "shards/shard_store.h"

namespace tpplan {

// From the manifest alone: for each layout whose shards, over all ranks, do not hold every byte exactly once (replicas
// apart), a message that names a tensor of it.
std::vector<std::string> tiling_faults(const Manifest& manifest);

struct VerifyResult {
  std::string difference;       // the first, by the order of the manifest: rank, tensor, index, bytes; empty: none
  uint64_t compared_bytes = 0;  // of shards
  double seconds = 0;
};

// Reads the source again, from its first byte to its last and without the plan that the shards were filled by, and
// compares it with what the ranks of this process hold of it. A tied tensor is compared with all the names under which
// it is stored. Called by all ranks of the job. Throws std::runtime_error when a file cannot be read or a rank failed.
VerifyResult verify_shards(Comm& comm, const WeightSource& source, std::span<const ShardStore> stores, int threads,
                           bool progress);

}  // namespace tpplan
