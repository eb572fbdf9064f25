#include "shards/ask_for_memory.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "ranks/memory_sharers.h"
#include "shards/shard_store.h"

namespace tpplan {
namespace {

// What the ranks that share this rank's memory lack, said by the first of them; empty when nothing.
std::string shortage_here(const Comm& comm, const Manifest& manifest) {
  const std::span<const int> sharers = memory_sharers(comm);
  if (comm.rank != sharers.front()) return "";
  uint64_t needed = 0;
  for (const int rank : sharers) {
    if (__builtin_add_overflow(needed, memory_of_rank(manifest, rank), &needed))
      return "the shards take more bytes than 64 bits count";
  }
  const uint64_t free = comm.device->free_bytes();
  if (needed <= free) return "";
  return fmt::format("the shards of {} take {}, and {} of memory are free on the {}; use more machines, or free memory",
                     sharers.size() == 1 ? fmt::format("rank {}", comm.rank) : counted(sharers.size(), "rank"),
                     human_bytes(needed), human_bytes(free), comm.device->memory);
}

}  // namespace

bool ask_for_memory(Comm& comm, const Manifest& manifest, std::string& shortage) {
  begin_step(comm, "asking for memory");
  std::vector<std::string> all;
  if (!comm.backend->gather_texts(comm, shortage_here(comm, manifest), all)) return false;
  const auto first = std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  shortage = first == all.end() ? "" : *first;
  return true;
}

}  // namespace tpplan
