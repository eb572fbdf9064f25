// What every rank says, on every rank: typed, checked, in order of ranks.
#pragma once

#include <string>
#include <vector>

#include "ranks/backend.h"
#include "ranks/message.h"

namespace tpplan {

// Why rank `rank`'s message cannot be read, as a fault of the job.
[[nodiscard]] Fault damaged_message(int rank);

// Called by all ranks, also as a barrier: the structs of all, by rank. Throws comm.fault after a failure, TP8013 when
// what a rank sent is damaged or is another struct.
template <typename T>
[[nodiscard]] std::vector<T> gather(Comm& comm, const T& mine) {
  std::vector<std::string> messages;
  require(comm, comm.backend->gather_texts(comm, to_message(mine), messages));
  std::vector<T> all(messages.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!from_message(messages[rank], all[rank])) throw damaged_message(static_cast<int>(rank));
  }
  return all;
}

}  // namespace tpplan
