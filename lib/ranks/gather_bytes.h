// What ranks tell each other, where not all of them are to hear it.
#pragma once

#include <string>
#include <vector>

#include "ranks/backend.h"

namespace tpplan {

// Called by all ranks of the group, over the backend's own ways, with a text for each member: those that the members
// have for this one, in their order. Of n members each speaks with some 2 sqrt(n), or with all where n is prime. Throws
// comm.fault, TP8012 where there is no memory for them.
[[nodiscard]] std::vector<std::string> exchange_bytes(Comm& comm, const Group& group,
                                                      const std::vector<std::string>& mine);

}  // namespace tpplan
