// State that the ranks of one process share: the buffers of the current call, the step of every rank, and the first
// failure.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "exec/ranks/deadline.h"
#include "exec/ranks/roster.h"

namespace tpplan {

// Buffers that a rank exposes to the other ranks for one call.
struct BoardSlot {
  const void* in = nullptr;
  void* out = nullptr;
  std::span<const uint64_t> sizes;
  std::string_view text;
};

// Reusable barrier of one group of ranks.
struct BoardGroup {
  std::vector<BoardSlot> slots;  // by index in the group
  std::vector<bool> here;
  size_t arrived = 0;
  uint64_t round = 0;  // complete rounds
  size_t reading = 0;  // ranks of the group that read other ranks' memory
};

struct Board {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::vector<int>, BoardGroup> groups;
  std::vector<RankState> ranks;
  std::vector<int> statuses;                     // exit statuses of ranks that ended
  size_t running = 0;                            // ranks whose body has not returned
  Clock::time_point last_change = Clock::now();  // of any rank's state
  std::optional<Fault> fault;
  std::string agreed;  // rank 0's result of the last fold_texts
};

// Waits until every rank of the group has arrived, and returns the slots of all. Returns nullptr with comm.fault set
// after a failure of any rank, if a rank of the group has ended, or at the deadline. With a `slot` the caller may read
// the other ranks' memory until it calls finish_reading. After a failure the function returns only when no rank reads
// any more: the caller may free the memory that they read.
[[nodiscard]] const std::vector<BoardSlot>* wait_for_group(Board& board, Comm& comm, const Group& group,
                                                           const BoardSlot* slot);

// Ends the read phase of the caller. After a failure it waits until the other ranks have finished reading.
void finish_reading(Board& board, const Group& group);

// Records that a rank's body has returned.
void post_rank_end(Board& board, int rank, int status);

// Waits until all bodies have returned. Sets a RankLate fault if some ranks have ended and the others make no progress
// for `deadline` seconds. Returns true if all have returned. After a failure the other ranks have one second to notice
// it; returns false if a body has not returned by then.
[[nodiscard]] bool wait_for_ends(Board& board, double deadline);

}  // namespace tpplan
