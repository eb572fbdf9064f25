// What every rank of a group says, where a group is not the whole job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ranks/backend.h"

namespace tpplan {

// Called by all ranks of the group, over the backend's own ways: the texts of its members, in its order. Throws
// comm.fault, TP8012 where there is no memory for them.
[[nodiscard]] std::vector<std::string> gather_bytes(Comm& comm, const Group& group, std::string_view mine);

// The same with a text for each member of the group: those that the members have for this one.
[[nodiscard]] std::vector<std::string> exchange_bytes(Comm& comm, const Group& group,
                                                      const std::vector<std::string>& mine);

}  // namespace tpplan
