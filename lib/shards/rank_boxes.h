// Who writes what of the tensors of a manifest: of each layout once, however many tensors have it.
#pragma once

#include <cstdint>
#include <vector>

#include "manifest/manifest.h"
#include "shards/box_index.h"
#include "shards/byte_boxes.h"

namespace tpplan {

// Boxes that share their rows, and so stand beside each other in every row: what is read in whole rows fills them all.
struct Band {
  Box box;
  std::vector<uint32_t> members;  // into RankBoxes::boxes
};

// The boxes that the ranks write of a tensor of one layout, by rank and then by run (list_shard_files).
struct RankBoxes {
  std::vector<int> ranks;
  std::vector<uint32_t> runs;  // the number of the box among those of its rank, and so of its file
  std::vector<Box> boxes;
  BoxIndex index;
  std::vector<Band> bands;  // all boxes, each in one
};

// By number in Manifest::layouts.
[[nodiscard]] std::vector<RankBoxes> list_rank_boxes(const Manifest& manifest);

}  // namespace tpplan
