// The shards of one rank in memory. `load` and `init` fill them; `verify`, `run`, `save` and `reshard` read them.
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

// The local shard of a parameter or buffer: row major, contiguous, with the shape of local_shape. Tied tensors share
// their memory.
struct Shard {
  std::string_view path;  // in the manifest
  const ParamLayout* layout = nullptr;
  std::vector<std::vector<Interval>> slice;  // result of shard_slice for this rank: global intervals, by dim
  std::vector<int64_t> shape;                // local shape
  uint64_t bytes = 0;
  void* data = nullptr;  // memory of `device`; nullptr if the shard is empty or not allocated
};

struct ShardStore {
  const Manifest* manifest = nullptr;
  const Device* device = nullptr;
  int rank = 0;
  std::vector<Shard> shards;  // parameters in the order of the manifest, then buffers
  std::vector<std::shared_ptr<void>> memory;
};

// Allocates the rank's shards, without filling them. Throws TP8012 before any allocation if the device has too little
// free memory.
[[nodiscard]] ShardStore allocate_shards(const Manifest& manifest, int rank, const Device& device);
// Returns the rank's shards without memory: every `data` is nullptr.
[[nodiscard]] ShardStore describe_shards(const Manifest& manifest, int rank);

// Throws TP8027 if a tensor of the manifest cannot be moved: its dtype has fewer than eight bits and its rows end
// inside a byte.
void check_packing(const Manifest& manifest);

// bytes_of_rank returns the bytes of a rank's shards, with tied tensors counted once. memory_of_rank returns the bytes
// that allocate_shards needs, including alignment.
[[nodiscard]] uint64_t bytes_of_rank(const Manifest& manifest, int rank);
[[nodiscard]] uint64_t memory_of_rank(const Manifest& manifest, int rank);

// Returns for each parameter the index of the first parameter that it is tied to; its own index if it is not tied.
[[nodiscard]] std::vector<uint32_t> first_tied_params(const Manifest& manifest);

// tensor_count returns the number of parameters and buffers, tensor_of the one with this index in ShardStore::shards.
[[nodiscard]] size_t tensor_count(const Manifest& manifest);
const ManifestParam& tensor_of(const Manifest& manifest, size_t index);

}  // namespace tpplan
