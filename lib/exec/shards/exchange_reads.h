// Reads the bytes that several ranks of a node need once, on one of them, and sends them to the others.
#pragma once

#include <cstdint>
#include <span>

#include "exec/ranks/backend.h"
#include "exec/shards/read_item.h"
#include "exec/shards/work_together.h"

namespace tpplan {

// Reads the file ranges. All ranks of a node call it with the same ranges. The ranks read items in turns and exchange
// them by all_to_all within `staging` bytes. Returns the bytes that this rank read. Throws the errors of reading, and
// comm.fault.
[[nodiscard]] uint64_t exchange_reads(Comm& comm, const ReadTo& to, std::span<const ReadRange* const> file_ranges,
                                      uint64_t staging, ProgressKind progress);

}  // namespace tpplan
