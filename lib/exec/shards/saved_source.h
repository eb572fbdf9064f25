// Folders that tpplan wrote for a known manifest: each rank opens only the files from which it reads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/shards/rank_boxes.h"
#include "exec/shards/shard_files.h"
#include "exec/shards/weight_source.h"

namespace tpplan {

// A folder that `save` or `reshard` wrote for a manifest that is available. The manifest determines every header to the
// byte, so headers are compared instead of parsed. find_saved_folder compares the first file; open_shard and
// open_local_shards compare the other files when they open them.
struct SavedFolder {
  const Manifest* manifest = nullptr;
  std::string path;
  std::vector<bool> missing;  // buffers that are not stored, by index in ShardStore::shards
  std::vector<RankBoxes> boxes;
  WeightSource first;  // the first file and its tensors, by which ranks check that they see the same folder
};

// True if `path` is such a folder; fills `folder`. Compares the hash of the shardings in the folder's note, the names
// of the files, and the header of the first file. False if any of these differs: the caller then uses open_weights,
// which reports the cause. Throws TP8020 or TP8021 if the folder cannot be used.
[[nodiscard]] bool find_saved_folder(const std::string& path, const Manifest& manifest,
                                     std::string_view shardings_sha256, SavedFolder& folder);

// The files of one rank of the folder, and the offset of each tensor's box in them.
struct OpenShard {
  std::vector<InputFile> files;                // index i has box i of each tensor; a closed file has no fd
  std::vector<std::vector<uint64_t>> offsets;  // by file and tensor
  std::vector<std::vector<uint32_t>> sums;     // checksums of the boxes, by file and tensor
};

struct OpenShards {
  const SavedFolder* folder = nullptr;
  uint64_t max_open = 1;  // maximum number of open files
  uint64_t open = 0;
  std::map<int, OpenShard> of_rank;
};

// Returns file `run` of rank `rank`, and opens it if it is closed. If shards.max_open files are open, closes all of
// them first. Throws if the header is not the one that the manifest determines, or the file changed.
[[nodiscard]] const InputFile& open_shard(OpenShards& shards, int rank, uint32_t run);

// Opens only the files with the elements that these ranks hold, which are those of the elements' first holders. Returns
// what open_weights would return for these files. Throws if a header is not the one that the manifest determines.
[[nodiscard]] WeightSource open_local_shards(const SavedFolder& folder, std::span<const int> ranks);

// Throws TP8028 if an open file has changed.
void check_unchanged(const OpenShards& shards);

// Returns the checksums of a file's boxes if its size and its head, except for the checksums, are those of `expected`;
// else nullopt.
[[nodiscard]] std::optional<std::vector<uint32_t>> sums_of(const InputFile& file, const ShardFile& expected);

}  // namespace tpplan
