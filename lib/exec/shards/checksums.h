// Checksums of shards: SHA-256 over a shard's bytes in memory order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/ranks/backend.h"
#include "exec/shards/shard_store.h"

namespace tpplan {

// Checksums by rank of this process, in the order of `stores`, and by index in ShardStore::shards; empty if a tensor is
// omitted.
using Checksums = std::vector<std::vector<std::string>>;

// Hashes the shards of all ranks. All ranks call it, with the stores that load_shards fills. Throws the error of the
// rank that failed.
[[nodiscard]] Checksums hash_shards(Comm& comm, std::span<const ShardStore> stores, const std::vector<bool>& omitted,
                                    int threads);

// A file of checksums: {"format": "tpplan.checksums/2", "shardings_sha256": ..., "algorithm": "sha256", "paths": [...],
// "ranks": [[...], ...]}. The list of each rank is a line, all of one length, so that each rank reads and writes only
// its own line.
struct ChecksumJob {
  const Manifest* manifest = nullptr;
  std::string shardings_sha256;
  std::string path;  // a file that all ranks see; "-": standard output of rank 0
  std::span<const ShardStore> stores;
  std::vector<bool> omitted;
};

// All ranks call both. compare_checksums returns the same errors on every rank: TP8043 for each shard that differs,
// TP8044 if the file cannot be used; empty if all agree.
void write_checksums(Comm& comm, const ChecksumJob& job, const Checksums& checksums);
[[nodiscard]] std::vector<Fault> compare_checksums(Comm& comm, const ChecksumJob& job, const Checksums& checksums);

// For callers that hash shards one by one, without other ranks. read_checksums reads the file's checksums of the ranks
// of this process (empty if a tensor is omitted) and returns the errors of the file.
[[nodiscard]] std::vector<Fault> read_checksums(const ChecksumJob& job, Checksums& checksums);
[[nodiscard]] std::string shard_hash(const Shard& shard, const Device& device);
[[nodiscard]] std::optional<Fault> compare_checksum(const ChecksumJob& job, size_t store, size_t tensor,
                                                    std::string_view mine, std::string_view there);

}  // namespace tpplan
