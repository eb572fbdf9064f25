#include "exec/run/memory_vote.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "exec/ranks/gather.h"
#include "exec/ranks/memory_sharers.h"

namespace tpplan {
namespace {

struct MemoryVote {
  bool is_enough = false;
};
auto fields(MemoryVote& vote) { return std::tie(vote.is_enough); }

}  // namespace

bool vote_on_memory(Comm& comm, uint64_t bytes) {
  const uint64_t sharers = memory_sharers(comm).size();
  return fold(comm, MemoryVote{bytes <= comm.device->free_bytes() / sharers},
              [](MemoryVote& all, const MemoryVote& more, int) { all.is_enough &= more.is_enough; })
      .is_enough;
}

}  // namespace tpplan
