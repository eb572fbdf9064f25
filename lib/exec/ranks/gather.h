// Typed gather and fold of one struct per rank, in rank order. Only rank 0 receives the structs of all ranks, so the
// traffic of the other ranks does not grow with the world size.
#pragma once

#include <string>
#include <vector>

#include "exec/ranks/backend.h"
#include "exec/ranks/message.h"

namespace tpplan {

// Returns the fault for an unreadable message of rank `rank`.
[[nodiscard]] Fault damaged_message_fault(int rank);

template <typename T>
[[nodiscard]] T read_message(const std::string& message, int rank) {
  T value;
  if (!from_message(message, value)) throw damaged_message_fault(rank);
  return value;
}

// Folds the structs of all ranks in rank order and returns the total on every rank. Rank 0 starts with its own struct
// and calls `add(total, more, rank)` for each other rank. Every rank must call it. Throws comm.fault after a failure,
// and TP8013 if a message is damaged or has another type. An exception of `add` is a fault of rank 0.
template <typename T, typename Add>
[[nodiscard]] T fold(Comm& comm, const T& mine, Add add) {
  const TextFold fold_all = [&](const std::vector<std::string>& messages) {
    T total = read_message<T>(messages[0], 0);
    for (size_t rank = 1; rank < messages.size(); ++rank)
      add(total, read_message<T>(messages[rank], static_cast<int>(rank)), static_cast<int>(rank));
    return to_message(total);
  };
  std::string agreed;
  throw_if_failed(comm, comm.backend->fold_texts(comm, to_message(mine), fold_all, agreed));
  return read_message<T>(agreed, 0);
}

// Gathers the structs of all ranks at rank 0, indexed by rank; other ranks get an empty vector. Every rank must call
// it; it is also a barrier. Throws comm.fault after a failure, and TP8013 if a message is damaged or has another type.
template <typename T>
[[nodiscard]] std::vector<T> gather(Comm& comm, const T& mine) {
  std::vector<T> all;
  const TextFold take_all = [&](const std::vector<std::string>& messages) {
    for (const std::string& message : messages) all.push_back(read_message<T>(message, static_cast<int>(all.size())));
    return std::string();
  };
  std::string nothing;
  throw_if_failed(comm, comm.backend->fold_texts(comm, to_message(mine), take_all, nothing));
  return all;
}

// Broadcasts the struct of rank 0 to all ranks. Every rank must call it.
template <typename T>
[[nodiscard]] T receive_from_first(Comm& comm, const T& mine) {
  return fold(comm, mine, [](T&, const T&, int) {});
}

}  // namespace tpplan
