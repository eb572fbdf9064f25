// Checksums of shards: SHA-256, the hash that names a file everywhere else here, over a shard's bytes as they stand in
// memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ranks/backend.h"
#include "shards/shard_store.h"

namespace tpplan {

// By rank, then by number in ShardStore::shards; empty where a tensor is left out.
using Checksums = std::vector<std::vector<std::string>>;

// The checksums of all ranks, on every rank. Called by all ranks, with shards as load_shards. Throws what a rank failed
// by.
[[nodiscard]] Checksums hash_shards(Comm& comm, std::span<const ShardStore> stores, const std::vector<bool>& left_out,
                                    int threads);

// {"format": "tpplan.checksums/1", "manifest_sha256": ..., "algorithm": "sha256", "shards": [{"path": ..., "ranks":
// [...]}]}
[[nodiscard]] std::string checksums_text(const Manifest& manifest, std::string_view manifest_sha256,
                                         const Checksums& checksums);

// Compares with what checksums_text wrote: TP8043 for what differs, TP8044 where the file cannot be used; empty: all
// agree.
[[nodiscard]] std::vector<Fault> compare_checksums(const std::string& path, const Manifest& manifest,
                                                   std::string_view manifest_sha256, const Checksums& checksums);

}  // namespace tpplan
