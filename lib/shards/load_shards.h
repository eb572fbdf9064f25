// Weights on disk -> the shards of the ranks of this process.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ranks/backend.h"
#include "shards/open_weights.h"
#include "shards/shard_store.h"
#include "shards/work_together.h"

namespace tpplan {

struct LoadOptions {
  uint64_t staging = uint64_t{256} << 20;  // bytes of host memory beside the shards
  int threads = 0;                         // that read; 0: a processor each, shared between the ranks of a node
  ProgressKind progress{};                 // on standard error
  bool broadcast = false;                  // what ranks hold alike is read once in the job, and not once on each node
};

struct LoadResult {
  uint64_t needed_bytes =
      0;  // of the files, for all ranks of this node, each byte once; with `is_broadcast` this rank's
  bool is_broadcast = false;   // alone
  uint64_t read_bytes = 0;     // that this rank read
  uint64_t checked_bytes = 0;  // of them, that were held against checksums which the files keep
  double seconds = 0;
};

inline constexpr uint64_t kMinStaging = uint64_t{1} << 20;

// Called by all ranks of the job. Fills `stores`: the first rank of each process brings those of comm.process in its
// order, the others none, and wait. With all ranks in one process each byte is read once. With a rank a process the
// ranks of a node share the reading: what one of them alone wants it reads itself, what several want is dealt out, read
// once and sent on. With `broadcast` each byte is wanted from files once in the job: each rank reads what it alone
// holds, and of what several hold alike its part (broadcast_reads.h). What stands in the files with a checksum, and is
// read whole by who shares the reading, is held against it. Returns what this rank read. Throws: a file that is shorter
// than it was or changed (TP8028), that is not what its checksum says (TP8043), an error of a disk (TP8029), a rank
// that failed.
[[nodiscard]] LoadResult load_shards(Comm& comm, const WeightSource& source, std::span<ShardStore> stores,
                                     const LoadOptions& options);

// Processors that this process may use, divided by the ranks of the node that live in other processes.
[[nodiscard]] int reading_threads(const Comm& comm, int asked);
// The same for work on shards in memory: a device that is not the host's is worked on by one thread.
[[nodiscard]] int working_threads(const Comm& comm, int asked);

}  // namespace tpplan
