// All-to-all exchange of texts within a group of ranks.
#pragma once

#include <string>
#include <vector>

#include "exec/ranks/backend.h"

namespace tpplan {

// Sends mine[i] to rank i of the group and returns the texts for this rank, in group order. Every rank of the group
// must call it. It uses the backend's all_to_all. In a group of n ranks, each exchanges messages with about 2 sqrt(n)
// ranks, or with all if n is prime or small. Throws comm.fault, and TP8012 if memory runs out.
[[nodiscard]] std::vector<std::string> exchange_bytes(Comm& comm, const Group& group,
                                                      const std::vector<std::string>& mine);

}  // namespace tpplan
