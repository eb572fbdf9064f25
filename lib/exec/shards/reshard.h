// Converts a folder of shards to the sharding of another manifest.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "exec/ranks/backend.h"
#include "exec/shards/rank_boxes.h"
#include "exec/shards/saved_source.h"
#include "exec/shards/weight_source.h"

namespace tpplan {

// The input of a reshard, shared by all ranks of a process. Either the manifest determines the folder, or `source` has
// every header.
struct ReshardInput {
  const Manifest* after = nullptr;
  std::string from;  // the folder
  bool is_known = false;
  SavedFolder known;
  std::vector<uint32_t> stored;  // index of each tensor in known.manifest
  WeightSource source;
  std::vector<BoxIndex> pieces;  // stored boxes of each of source.tensors
  std::vector<bool> missing;     // tensors that are not stored
  std::vector<RankBoxes> wanted;
};

// Computes the fields of `input` that follow from input.after and input.known or input.source. Returns false if the
// folder is known and its tensors differ from those of input.after: open_weights then reports the differences.
[[nodiscard]] bool list_moves(ReshardInput& input);

struct ReshardResult {
  uint64_t read_bytes = 0, written_bytes = 0;  // by this rank
  uint64_t linked_bytes = 0;                   // of files that do not change
  uint64_t opened_files = 0;                   // of the old folder
  uint64_t checked_bytes = 0;                  // of the old folder, compared with its checksums
};

// The checksum of the bytes that ranks have read or written of one stored box.
struct MovedPart {
  uint32_t sum = 0;
  uint64_t bytes = 0, all = 0;  // bytes so far, and of the box
  uint32_t kept = 0;            // its checksum in the old folder
};
struct StoredBoxKey {
  uint64_t file = 0;  // the rank for a known folder and for the new one; else the index in the source
  uint32_t run = 0;   // index of the rank's file; else of the tensor's stored box
  uint32_t tensor = 0;
  auto operator<=>(const StoredBoxKey&) const = default;
};
using MovedParts = std::map<StoredBoxKey, MovedPart>;

// Checksums of all ranks of a process.
struct MovedSums {
  std::mutex mutex;
  MovedParts read, written;
};

// Writes the folder `input.from` again at `path`, sharded by `input.after`. All ranks of its mesh call it. Each byte is
// read once and written once. If fewer ranks write a tensor than exist, the other ranks help them. A rank buffers at
// most `staging` bytes.
//
// An unchanged file becomes a hard link, so that a later write into it changes both folders, or a copy if linking
// fails. Bytes are compared with the checksums of the old folder when they are read, and the new folder gets checksums
// of the bytes that are written. Returns the byte counts of this rank. Throws if nothing was written.
[[nodiscard]] ReshardResult reshard(Comm& comm, const ReshardInput& input, MovedSums& sums,
                                    const std::string& shardings_sha256, const std::string& path, uint64_t staging);

}  // namespace tpplan
