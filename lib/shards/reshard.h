// A folder of shards -> the same tensors, cut by another manifest.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
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
  uint64_t checked_bytes = 0;                  // of the old folder, held against its checksums
};

// The sum of what ranks read or wrote of one piece of a file.
struct MovedPart {
  uint32_t sum = 0;
  uint64_t bytes = 0, all = 0;  // of the piece
  uint32_t kept = 0;            // the checksum that the old folder keeps of it
};
struct PieceKey {
  uint64_t file = 0;  // of a known folder, and of the new one, its rank; else as the source counts
  uint32_t run = 0;   // of that rank; else the piece of the tensor
  uint32_t tensor = 0;
  auto operator<=>(const PieceKey&) const = default;
};
using MovedParts = std::map<PieceKey, MovedPart>;

// Of the ranks of a process together.
struct MovedSums {
  std::mutex mutex;
  MovedParts read, written;
};

// Called by all ranks of the mesh of `after`. Writes folder `path` by it. Each rank reads the bytes of its own files,
// and of those that it helps to write where fewer ranks write a tensor than there are: each byte is read once and
// written once; a rank takes at most `staging` bytes. A file that does not change is linked, or copied where it cannot
// be. What is read is held against the checksums of the old folder, and the new one has those of what was written:
// neither is read again for it. Throws where nothing is written.
[[nodiscard]] ReshardResult reshard(Comm& comm, const ReshardInput& input, MovedSums& sums,
                                    const std::string& manifest_sha256, const std::string& path, uint64_t staging);

}  // namespace tpplan
