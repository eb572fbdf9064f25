#include "exec/run/memory_fit.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "exec/ranks/gather.h"
#include "exec/ranks/ranks_sharing_memory.h"

namespace tpplan {
namespace {

struct MemoryVote {
  bool is_enough = false;
};
auto fields(MemoryVote& vote) { return std::tie(vote.is_enough); }

}  // namespace

bool fits_on_all_ranks(Comm& comm, uint64_t bytes) {
  const uint64_t sharers = ranks_sharing_memory(comm).size();
  return fold(comm, MemoryVote{bytes <= comm.device->free_bytes() / sharers},
              [](MemoryVote& all, const MemoryVote& more, int) { all.is_enough &= more.is_enough; })
      .is_enough;
}

}  // namespace tpplan
