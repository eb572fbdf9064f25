// Initialises shards without a checkpoint: every element depends on the seed, the path of its tensor and its global
// index only, so that the values are the same on every mesh.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "diagnostics/fault.h"
#include "exec/device/threefry.h"
#include "exec/shards/shard_store.h"

namespace tpplan {

// The tensors that `init` fills, skips or rejects.
struct InitPlan {
  std::vector<Fault> faults;  // TP8052: parameters and buffers whose dtype cannot hold the initial values
  std::vector<std::string_view> unspecified;    // parameters without an init rule
  std::vector<std::string_view> omitted_names;  // buffers without an init rule, except those that no checkpoint has
  std::vector<bool> omitted;                    // by index in ShardStore::shards
};

[[nodiscard]] InitPlan plan_init(const Manifest& manifest);

// Returns fold_in(fold_in(key(seed), high 32 bits of h), low 32 bits of h), where h is the 64-bit FNV-1a hash of the
// path with `.` as separator (also for Keras).
[[nodiscard]] ThreefryKey key_of_tensor(uint64_t seed, std::string_view path);

// Fills all shards that have an init rule; a tied tensor uses the first of its names in the manifest. Returns the
// number of random values. Throws the errors of the device.
[[nodiscard]] uint64_t init_shards(ShardStore& store, uint64_t seed, int threads);

}  // namespace tpplan
