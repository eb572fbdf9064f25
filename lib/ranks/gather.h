// What ranks say, brought together: typed, checked, in order of ranks. All of it is heard by rank 0 alone, so that a
// rank's part does not grow with the ranks there are.
#pragma once

#include <string>
#include <vector>

#include "ranks/backend.h"
#include "ranks/message.h"

namespace tpplan {

// Why rank `rank`'s message cannot be read, as a fault of the job.
[[nodiscard]] Fault damaged_message(int rank);

template <typename T>
[[nodiscard]] T read_message(const std::string& message, int rank) {
  T value;
  if (!from_message(message, value)) throw damaged_message(rank);
  return value;
}

// Called by all ranks: rank 0's struct, to which `add(total, more, rank)` has added the others', in order of ranks; on
// all ranks. Throws comm.fault after a failure, TP8013 when what a rank sent is damaged or is another struct. `add` is
// called at rank 0; what it throws is rank 0's fault.
template <typename T, typename Add>
[[nodiscard]] T fold(Comm& comm, const T& mine, Add add) {
  const TextFold fold_all = [&](const std::vector<std::string>& messages) {
    T total = read_message<T>(messages[0], 0);
    for (size_t rank = 1; rank < messages.size(); ++rank)
      add(total, read_message<T>(messages[rank], static_cast<int>(rank)), static_cast<int>(rank));
    return to_message(total);
  };
  std::string agreed;
  require(comm, comm.backend->fold_texts(comm, to_message(mine), fold_all, agreed));
  return read_message<T>(agreed, 0);
}

// Called by all ranks, also as a barrier: the structs of all, by rank, at rank 0; on the others nothing. Throws as fold
// does.
template <typename T>
[[nodiscard]] std::vector<T> gather(Comm& comm, const T& mine) {
  std::vector<T> all;
  const TextFold take_all = [&](const std::vector<std::string>& messages) {
    for (const std::string& message : messages) all.push_back(read_message<T>(message, static_cast<int>(all.size())));
    return std::string();
  };
  std::string nothing;
  require(comm, comm.backend->fold_texts(comm, to_message(mine), take_all, nothing));
  return all;
}

// Called by all ranks: the struct of rank 0, on all.
template <typename T>
[[nodiscard]] T hear_first(Comm& comm, const T& mine) {
  return fold(comm, mine, [](T&, const T&, int) {});
}

}  // namespace tpplan
