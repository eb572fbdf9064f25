// Reads the elements that several ranks replicate once in the job: the ranks take turns and send to each other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/ranks/backend.h"
#include "exec/shards/read_item.h"
#include "exec/shards/work_together.h"
#include "manifest/manifest.h"

namespace tpplan {

// Returns the ranks that hold the same elements as `rank`, ascending: those that differ from it only on axes that do
// not shard the tensor.
[[nodiscard]] std::vector<int> replica_ranks(const ParamLayout& layout, const Mesh& mesh, int rank);

// Reads file ranges that several ranks need, each byte once in the job. All ranks call it, each with the ranges that it
// shares with others, in the order of their tensors: the ranks of a group have the same ranges in the same order, and
// groups communicate in the order of tensors. In each round every rank of a group reads an item, and an all_gather
// sends it to all of them, within `staging` bytes. Returns the bytes that this rank read, and how many of them are
// needed. Throws the errors of reading, and comm.fault.
struct BroadcastResult {
  uint64_t read_bytes = 0, needed_bytes = 0;
};
[[nodiscard]] BroadcastResult broadcast_reads(Comm& comm, const ReadTo& to,
                                              std::span<const ReadRange* const> file_ranges, uint64_t staging,
                                              ProgressKind progress);

}  // namespace tpplan
