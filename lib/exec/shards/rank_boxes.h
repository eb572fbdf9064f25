// The assignment of a tensor's boxes to the ranks that write them, once for each layout of a manifest.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/shards/box_index.h"
#include "exec/shards/byte_boxes.h"
#include "manifest/manifest.h"

namespace tpplan {

// Boxes that cover the same rows, so that one read of full rows fills them all.
struct Band {
  Box box;
  std::vector<uint32_t> members;  // into RankBoxes::boxes
};

// The boxes that the ranks write of a tensor with one layout, by rank and then by file (list_shard_files).
struct RankBoxes {
  std::vector<int> ranks;
  std::vector<uint32_t> runs;  // index of the box among those of its rank, and of its file among the rank's files
  std::vector<Box> boxes;
  BoxIndex index;
  std::vector<Band> bands;  // all boxes, each in one
};

// Returns the boxes by index in Manifest::layouts.
[[nodiscard]] std::vector<RankBoxes> list_rank_boxes(const Manifest& manifest);

}  // namespace tpplan
