// Where the bytes of a folder's tensors stand, for who wants some of them and not all: its ranks open the files that
// they read, and no others.
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

// A folder that `save` or `reshard` wrote by a manifest which is at hand: its files are what the manifest says, to the
// byte of every header, so that nobody parses headers. The first file is looked at before it is believed, every other
// one by who opens it.
struct SavedFolder {
  const Manifest* manifest = nullptr;
  std::string path;
  std::vector<bool> missing;  // buffers that it lacks, by number
  std::vector<RankBoxes> boxes;
  WeightSource first;  // the first file, and where each tensor begins in it: what ranks compare
};

// Whether `path` is such a folder; false where any doubt is left, and open_weights is to say what there is. Finds what
// stands there from the names of its files, and opens the first.
[[nodiscard]] bool find_saved_folder(const std::string& path, const Manifest& manifest,
                                     std::string_view shardings_sha256, SavedFolder& folder);

// The files of one rank of the folder, and where each tensor's box stands in them.
struct OpenShard {
  std::vector<InputFile> files;                // by run; closed ones have no fd
  std::vector<std::vector<uint64_t>> offsets;  // by run and tensor
  std::vector<std::vector<uint32_t>> sums;     // checksums of the pieces, likewise
};

struct OpenShards {
  const SavedFolder* folder = nullptr;
  uint64_t most_open = 1;  // files at a time
  uint64_t open = 0;
  std::map<int, OpenShard> of_rank;
};

// The file that holds run `run` of rank `rank`, open. Throws where the file is not what the manifest says.
[[nodiscard]] const InputFile& open_shard(OpenShards& shards, int rank, uint32_t run);

// What open_weights would say of the folder, of the files alone that hold what these ranks hold of it: of whom each is
// the first holder. Throws where one is not what the manifest says.
[[nodiscard]] WeightSource open_local_shards(const SavedFolder& folder, std::span<const int> ranks);

// Throws TP8028 when one of those that are open is no longer what it was.
void check_unchanged(const OpenShards& shards);

// The bytes of a file of shards: of its head, and of all its pieces.
[[nodiscard]] uint64_t end_of(const ShardFile& file);

// The checksums of a file's pieces, where it has this head, but for them, and as many bytes in all; else nothing.
[[nodiscard]] std::optional<std::vector<uint32_t>> sums_of(const InputFile& file, const ShardFile& expected);

}  // namespace tpplan
