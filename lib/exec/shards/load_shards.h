// Loads weights from disk into the shards of the ranks of this process.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "exec/ranks/backend.h"
#include "exec/shards/shard_store.h"
#include "exec/shards/weight_source.h"
#include "exec/shards/work_together.h"

namespace tpplan {

struct LoadOptions {
  uint64_t staging = uint64_t{256} << 20;  // bytes of host memory in addition to the shards
  int threads = 0;                         // reading threads; 0: the node's processors, shared among its ranks
  ProgressKind progress{};                 // on standard error
  bool broadcast = false;                  // reads replicated elements once in the job instead of once on each node
};

struct LoadResult {
  uint64_t needed_bytes =
      0;  // of the files, for all ranks of this node, each byte once; with `is_broadcast` this rank's
  bool is_broadcast = false;   // alone
  uint64_t read_bytes = 0;     // bytes that this rank read
  uint64_t checked_bytes = 0;  // of them, bytes that were compared with checksums in the files
  double seconds = 0;
};

inline constexpr uint64_t kMinStaging = uint64_t{1} << 20;

// Fills `stores` with the weights. All ranks of the job call it: the first rank of each process passes the stores of
// comm.process in that order, the other ranks pass none and wait.
//
// If one process has all ranks, it reads each byte once. If each rank is a process, the ranks of a node share the
// reading: a rank reads what only it needs, and bytes that several need are read once and sent. With options.broadcast
// each byte is read once in the job: a rank reads what only it holds, and its part of what several replicate
// (broadcast_reads.h). A stored tensor with a checksum that these ranks read completely is compared with it.
//
// Returns what this rank read. Throws TP8028 if a file changed, TP8043 for a wrong checksum, TP8029 for a disk error,
// and the error of a rank that failed.
[[nodiscard]] LoadResult load_shards(Comm& comm, const WeightSource& source, std::span<ShardStore> stores,
                                     const LoadOptions& options);

// Returns the number of threads for work on shards in memory: one if the device is not the host.
[[nodiscard]] int working_threads(const Comm& comm, int requested);

}  // namespace tpplan
