// A folder of shards -> the same tensors, cut by another manifest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ranks/backend.h"
#include "shards/open_weights.h"
#include "shards/rank_boxes.h"
#include "shards/saved_source.h"

namespace tpplan {

// What is moved: what all ranks of a process share of it. Either the folder is known by its manifest, or `source` has
// every header.
struct ReshardInput {
  const Manifest* after = nullptr;
  std::string from;  // the folder
  bool is_known = false;
  SavedFolder known;
  std::vector<uint32_t> stored;  // of each tensor its number in known.manifest
  WeightSource source;
  std::vector<BoxIndex> pieces;  // of each of source.tensors
  std::vector<bool> missing;     // left out
  std::vector<RankBoxes> wanted;
};

// Fills what follows from after, known or source. False where the folder is known and its tensors are not those of
// `after`: it is to be opened by open_weights then, which says what is wrong.
[[nodiscard]] bool list_moves(ReshardInput& input);

struct ReshardResult {
  uint64_t read_bytes = 0, written_bytes = 0;  // by this rank
  uint64_t kept_bytes = 0;                     // of files that are in the new folder what they were in the old one
  uint64_t opened_files = 0;                   // of the old folder
};

// Called by all ranks of the mesh of `after`. Writes folder `path` by it. Each rank reads the bytes of its own files,
// and of those that it helps to write where fewer ranks write a tensor than there are: each byte is read once and
// written once; a rank takes at most `staging` bytes. A file that does not change is linked, or copied where it cannot
// be. Throws where nothing is written.
[[nodiscard]] ReshardResult reshard(Comm& comm, const ReshardInput& input, const std::string& manifest_sha256,
                                    const std::string& path, uint64_t staging);

}  // namespace tpplan
