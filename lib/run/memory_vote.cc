#include "run/memory_vote.h"

#include <algorithm>
#include <string>
#include <vector>

namespace tpplan {

bool vote_on_memory(Comm& comm, uint64_t bytes, bool& enough) {
  const uint64_t sharers = comm.process.size() > 1 ? comm.process.size() : comm.device->name == "cpu" ? comm.node.size() : 1;
  std::vector<std::string> all;
  if (!comm.backend->gather_texts(comm, bytes <= comm.device->free_bytes() / std::max<uint64_t>(sharers, 1) ? "enough" : "short", all)) return false;
  enough = std::ranges::count(all, "enough") == static_cast<std::ptrdiff_t>(all.size());
  return true;
}

}  // namespace tpplan
