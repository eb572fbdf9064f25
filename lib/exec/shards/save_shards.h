// Writes shards from memory to files: a folder with the files of each rank, or files with full tensors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exec/ranks/backend.h"
#include "exec/shards/shard_store.h"

namespace tpplan {

struct SaveOptions {
  std::string path;              // of the folder, or of the file
  std::string shardings_sha256;  // for the folder's note
  std::vector<bool> omitted;     // by index in ShardStore::shards: tensors to skip; empty: none
  uint64_t staging = uint64_t{4} << 20;
  uint64_t max_file_bytes = 0;  // tensor bytes of one file of full tensors; 0: one file (save_unsharded)
  std::string expert_naming;    // of full tensors: writes a matrix for each expert, with these names; empty: stacked
};

// Writes a folder of shards at options.path, in the form of torch's distributed checkpoint (shard_folder.h). All ranks
// call it. Each element is written by the first rank that holds it, and a tied tensor under each of its names. A shard
// with several intervals (fused dims) goes into several files. Errors and atomicity as in write_folder: TP8031 if the
// path exists, unless it is an empty folder. Returns the bytes that this rank wrote.
[[nodiscard]] uint64_t save_shards(Comm& comm, const ShardStore& store, const SaveOptions& options);

// Writes only the files of this rank into an existing folder. For callers that synchronize the ranks themselves
// (tpplan_load_save).
[[nodiscard]] uint64_t write_rank_files(const ShardStore& store, const std::string& folder,
                                        const std::vector<bool>& omitted, uint64_t staging);

// Writes full tensors: one safetensors file, or several files and an index if options.max_file_bytes is set. Throws
// TP8033 if `expert_naming` is set and the manifest has no stacked experts, or has them in another form than [experts,
// rows, columns]. All ranks call it. Returns the bytes that this rank wrote.
[[nodiscard]] uint64_t save_unsharded(Comm& comm, const ShardStore& store, const SaveOptions& options);

}  // namespace tpplan
