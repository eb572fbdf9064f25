#include "exec/shards/require_memory.h"

#include <spdlog/fmt/fmt.h>

#include <optional>
#include <tuple>
#include <vector>

#include "base/text.h"
#include "exec/ranks/gather.h"
#include "exec/ranks/ranks_sharing_memory.h"
#include "exec/shards/shard_store.h"

namespace tpplan {
namespace {

// Message about the memory that a rank shares with others.
struct MemoryState {
  std::optional<Fault> shortage;
};
auto fields(MemoryState& state) { return std::tie(state.shortage); }

// Returns the shortage of the ranks that share this rank's memory; only the first of them reports it.
std::optional<Fault> shortage_here(const Comm& comm, const Manifest& manifest) {
  const std::span<const int> sharers = ranks_sharing_memory(comm);
  if (comm.rank != sharers.front()) return std::nullopt;
  uint64_t needed = 0;
  for (const int rank : sharers) {
    if (__builtin_add_overflow(needed, memory_of_rank(manifest, rank), &needed))
      return Fault{
          .code = Code::ResourceLimit, .message = "the size of the shards in bytes exceeds 64 bits", .rank = rank};
  }
  const uint64_t free = comm.device->free_bytes();
  if (needed <= free) return std::nullopt;
  const std::string whose = sharers.size() == 1 ? fmt::format("rank {}", comm.rank) : counted(sharers.size(), "rank");
  return Fault{.code = Code::OutOfMemory,
               .message = fmt::format("the shards of {} need {}, but only {} of memory are free on the {}", whose,
                                      human_bytes(needed), human_bytes(free), comm.device->memory),
               .help = "use more machines, or free memory",
               .rank = comm.rank};
}

}  // namespace

void require_memory(Comm& comm, const Manifest& manifest) {
  begin_step(comm, "checking free memory");
  const MemoryState all =
      fold(comm, MemoryState{shortage_here(comm, manifest)}, [](MemoryState& first, MemoryState more, int) {
        if (!first.shortage) first.shortage = std::move(more.shortage);
      });
  if (all.shortage) throw *all.shortage;
}

}  // namespace tpplan
