// A rank's shards in memory: what load and init fill, and verify, run, save and reshard read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/device/device.h"
#include "manifest/manifest.h"
#include "sharding/shard_slice.h"

namespace tpplan {

// One parameter or buffer as this rank holds it: row major, without gaps, dims as local_shape says. Names of one tied
// tensor share memory.
struct Shard {
  std::string_view path;  // in the manifest
  const ParamLayout* layout = nullptr;
  std::vector<std::vector<Interval>> slice;  // shard_slice of this rank: runs of global indices, per dim
  std::vector<int64_t> shape;                // local shape
  uint64_t bytes = 0;
  void* data = nullptr;  // memory of `device`; nullptr when empty
};

struct ShardStore {
  const Manifest* manifest = nullptr;
  const Device* device = nullptr;
  int rank = 0;
  std::vector<Shard> shards;  // parameters in the manifest's order, then buffers
  std::vector<std::shared_ptr<void>> memory;
};

// The rank's shards with memory, not filled. Throws TP8012, before anything is allocated, when the device has
// less free than they take.
[[nodiscard]] ShardStore allocate_shards(const Manifest& manifest, int rank, const Device& device);
// The same without memory: data is nullptr everywhere.
[[nodiscard]] ShardStore describe_shards(const Manifest& manifest, int rank);

// Throws TP8027 where a tensor of this manifest cannot be moved: its type has fewer than eight bits, and a row of it
// ends inside a byte.
void check_packing(const Manifest& manifest);

// Bytes of a rank's shards, tied names once; and what allocate_shards takes for them, with the gaps that keep them
// aligned.
[[nodiscard]] uint64_t bytes_of_rank(const Manifest& manifest, int rank);
[[nodiscard]] uint64_t memory_of_rank(const Manifest& manifest, int rank);

// For each parameter the one of its tied names that stands first in the manifest; an untied one itself.
[[nodiscard]] std::vector<uint32_t> first_of_tied(const Manifest& manifest);

// Parameter or buffer number `index`, counted as in ShardStore::shards.
const ManifestParam& tensor_of(const Manifest& manifest, size_t index);

}  // namespace tpplan
