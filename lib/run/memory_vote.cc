#include "run/memory_vote.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ranks/memory_sharers.h"

namespace tpplan {

bool vote_on_memory(Comm& comm, uint64_t bytes, bool& enough) {
  const uint64_t sharers = memory_sharers(comm).size();
  std::vector<std::string> all;
  if (!comm.backend->gather_texts(comm, bytes <= comm.device->free_bytes() / sharers ? "enough" : "short", all))
    return false;
  enough = std::ranges::count(all, "enough") == static_cast<std::ptrdiff_t>(all.size());
  return true;
}

}  // namespace tpplan
