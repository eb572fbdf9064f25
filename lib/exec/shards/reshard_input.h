// The input and the result of a reshard.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

struct ReshardResult {
  uint64_t read_bytes = 0, written_bytes = 0;  // by this rank
  uint64_t linked_bytes = 0;                   // of files that do not change
  uint64_t opened_files = 0;                   // of the old folder
  uint64_t checked_bytes = 0;                  // of the old folder, compared with its checksums
};

}  // namespace tpplan
