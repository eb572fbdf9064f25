// What several ranks of a node want of the files: read once, by one of them, and sent to the others.
#pragma once

#include <cstdint>
#include <span>

#include "ranks/backend.h"
#include "shards/read_item.h"
#include "shards/work_together.h"

namespace tpplan {

// Called by all ranks of a node with the same cells. Item after item is dealt over the ranks, read, and exchanged by
// all_to_all within `staging` bytes. Returns the bytes that this rank read; throws what reading throws, and comm.fault.
[[nodiscard]] uint64_t exchange_reads(Comm& comm, const ReadTo& to, std::span<const ReadCell* const> cells,
                                      uint64_t staging, ProgressKind progress);

}  // namespace tpplan
