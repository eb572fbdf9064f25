// What ranks hold alike: read once in the whole job, by all of them in turns, and sent to the others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "manifest/manifest.h"
#include "ranks/backend.h"
#include "shards/read_item.h"
#include "shards/work_together.h"

namespace tpplan {

// The ranks that hold what `rank` holds of a tensor of this layout, ascending: those that differ from it on axes that
// do not cut it.
[[nodiscard]] std::vector<int> ranks_alike(const ParamLayout& layout, const Mesh& mesh, int rank);

// Called by all ranks, each with the cells that it and others hold alike, of a plan of its own, by number of their
// tensor: members of a group come to it with the same cells in the same order, and groups meet in the order of tensors.
// In rounds every member reads an item, and all_gather gives it to all, within `staging` bytes. Returns the bytes that
// this rank read, and of them those that are wanted; throws what reading throws, and comm.fault.
struct BroadcastResult {
  uint64_t read_bytes = 0, needed_bytes = 0;
};
[[nodiscard]] BroadcastResult broadcast_reads(Comm& comm, const ReadTo& to, std::span<const ReadCell* const> cells,
                                              uint64_t staging, ProgressKind progress);

}  // namespace tpplan
