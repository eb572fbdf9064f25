// Shards without a checkpoint: every element from the seed, the path of its tensor and its own place in it, so that the
// values are the same on every mesh.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "device/threefry.h"
#include "diagnostics/fault.h"
#include "shards/shard_store.h"

namespace tpplan {

// What init would do with a manifest's tensors.
struct InitPlan {
  std::vector<Fault> faults;             // TP8052: parameters and buffers that cannot be filled as the manifest says
  std::vector<std::string_view> unsaid;  // parameters of which nobody says what they are filled with
  std::vector<std::string_view> left_out_names;  // buffers of which nobody says it, but those that no checkpoint has
  std::vector<bool> left_out;                    // by number in ShardStore::shards
};

[[nodiscard]] InitPlan plan_init(const Manifest& manifest);

// fold_in(fold_in(key(seed), high 32 bits of h), low 32 bits of h), h the FNV-1a hash (64 bits) of the path with `.`
// between its parts, Keras' too.
[[nodiscard]] ThreefryKey key_of_tensor(uint64_t seed, std::string_view path);

// Fills all shards but those that nobody says anything of; of a tied tensor the name that stands first in the manifest
// counts. Returns how many values were drawn. Throws what the device throws.
[[nodiscard]] uint64_t init_shards(ShardStore& store, uint64_t seed, int threads);

}  // namespace tpplan
