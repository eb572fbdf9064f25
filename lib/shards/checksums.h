// Checksums of shards: SHA-256, the hash that names a file everywhere else here, over a shard's bytes as they stand in
// memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ranks/backend.h"
#include "shards/shard_store.h"

namespace tpplan {

// Of the ranks of this process, as `stores` has them, then by number in ShardStore::shards; empty where a tensor is
// left out.
using Checksums = std::vector<std::vector<std::string>>;

// Called by all ranks, with shards as load_shards. Throws what a rank failed by.
[[nodiscard]] Checksums hash_shards(Comm& comm, std::span<const ShardStore> stores, const std::vector<bool>& left_out,
                                    int threads);

// What of a file of checksums is for all ranks to know. The file is {"format": "tpplan.checksums/2", "manifest_sha256":
// ..., "algorithm": "sha256", "paths": [...], "ranks": [[...], ...]}, with the list of each rank on a line of its own,
// all of one length: so each rank writes and reads its own, and nobody all of them.
struct ChecksumJob {
  const Manifest* manifest = nullptr;
  std::string manifest_sha256;
  std::string path;  // a file that all ranks see; "-": standard output of rank 0
  std::span<const ShardStore> stores;
  std::vector<bool> left_out;
};

// Both are called by all ranks. Comparing gives every rank what differs anywhere: TP8043 for what does, TP8044 where
// the file cannot be used; empty: all agree. Files of format tpplan.checksums/1, which are read as a whole, count too.
void write_checksums(Comm& comm, const ChecksumJob& job, const Checksums& checksums);
[[nodiscard]] std::vector<Fault> compare_checksums(Comm& comm, const ChecksumJob& job, const Checksums& checksums);

// For who hashes shards one by one, with no other rank: what the file says of the ranks of this process, empty where a
// tensor is left out (the faults are those of the file itself), and what is wrong where a shard has another hash.
[[nodiscard]] std::vector<Fault> read_checksums(const ChecksumJob& job, Checksums& checksums);
[[nodiscard]] std::string hash_of_shard(const Shard& shard, const Device& device);
[[nodiscard]] std::optional<Fault> compare_checksum(const ChecksumJob& job, size_t store, size_t tensor,
                                                    std::string_view mine, std::string_view there);

}  // namespace tpplan
