// Shards in memory -> files: a folder with files of each rank, or one file of whole tensors.
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
  std::vector<bool>
      left_out;  // by number in ShardStore::shards: what is not written (buffers that nobody filled); empty: none
  uint64_t staging = uint64_t{4} << 20;
  uint64_t max_file_bytes = 0;  // of a folder of whole tensors (save_indexed)
};

// Called by all ranks. Writes `path` as torch's distributed checkpoint does (shard_folder.h): every element by the
// first of the ranks that hold it, a shard of several runs (fused dims) as one file a run, a tied tensor under each of
// its names. The files come into a folder beside `path` that is renamed when every rank has succeeded; else it is
// removed. A `path` that exists is refused unless it is an empty folder (TP8031). Returns the bytes that this rank
// wrote; throws where nothing is written.
[[nodiscard]] uint64_t save_shards(Comm& comm, const ShardStore& store, const SaveOptions& options);

// A rank's part of such a folder, which is there: its files. For who brings ranks together by other means.
[[nodiscard]] uint64_t write_rank_files(const ShardStore& store, const std::string& folder,
                                        const std::vector<bool>& left_out, uint64_t staging);

// Called by all ranks. One safetensors file with whole tensors; each rank writes what it holds first. Replaces a file
// at `path` once all ranks have succeeded.
[[nodiscard]] uint64_t save_consolidated(Comm& comm, const ShardStore& store, const SaveOptions& options);

// The same as a new folder of several files and their index, as Hugging Face keeps them:
// model-00001-of-00002.safetensors, model.safetensors.index.json. Tensors stand in the manifest's order; a file holds
// as many as `max_file_bytes` of their bytes let in, and one that is larger alone.
[[nodiscard]] uint64_t save_indexed(Comm& comm, const ShardStore& store, const SaveOptions& options);

// One of these two: with max_file_bytes the second.
[[nodiscard]] uint64_t save_unsharded(Comm& comm, const ShardStore& store, const SaveOptions& options);

}  // namespace tpplan
