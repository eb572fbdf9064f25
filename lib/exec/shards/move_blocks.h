// Moves the blocks of tensors from the files of an old folder into those of a new one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exec/shards/moved_sums.h"
#include "exec/shards/new_folder.h"
#include "exec/shards/reshard_input.h"
#include "exec/shards/shard_files.h"

namespace tpplan {

// A file of the new folder that a rank writes into. `is_kept`: it is a link or copy of the old file.
struct MoveTarget {
  bool is_kept = false;
  std::vector<uint64_t> offsets;  // of each tensor's box
  OutputFile file;                // open from the first write on
};

// The state of one rank's work.
struct Mover {
  const ReshardInput& input;
  std::string folder;
  OpenShards shards;
  std::map<std::pair<int, uint32_t>, MoveTarget> targets;  // by rank and index of the rank's file
  std::vector<ShardFile> own;                              // files of this rank except those that are kept
  MovedParts read, written;
  uint64_t limit = 0;            // of a block
  std::vector<char> block, run;  // buffers, which grow as needed
  ReshardResult result;
};

// True if the file of this name in the old folder has the same tensors and boxes.
[[nodiscard]] bool is_unchanged_by(const ReshardInput& input, const ShardFile& wanted);

// Distributes the bands of a tensor over the ranks: a rank moves several bands, or several ranks share the blocks of
// one band. The first rank differs between tensors, so that all ranks move a similar number of bytes, in few files
// each.
void move_tensor(Mover& mover, size_t tensor, uint64_t rank, uint64_t world);

}  // namespace tpplan
