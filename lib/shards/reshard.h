// A folder of shards -> the same tensors, cut by another manifest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ranks/backend.h"
#include "shards/open_weights.h"

namespace tpplan {

struct ReshardResult {
  uint64_t read_bytes = 0, written_bytes = 0;  // by this rank
};

// Called by all ranks of the mesh of `after`. Writes folder `path` by `after` from `source`, which was opened for it
// (any kind of weights). Blocks of tensors are dealt over the ranks: each byte is read once, put in its place in
// memory, and written once; a rank takes at most `staging` bytes. Throws where nothing is written.
[[nodiscard]] ReshardResult reshard(Comm& comm, const WeightSource& source, const Manifest& after,
                                    const std::string& manifest_sha256, const std::string& path, uint64_t staging);

}  // namespace tpplan
