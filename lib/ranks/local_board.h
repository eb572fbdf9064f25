// The board that the ranks of one process share: what each hands out, where each stands, the first failure.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ranks/deadline.h"
#include "ranks/roster.h"

namespace tpplan {

// What a rank hands out for one call.
struct BoardSlot {
  const void* in = nullptr;
  void* out = nullptr;
  std::span<const uint64_t> sizes;
  std::string_view text;
};

// A barrier of the same ranks, used over and over.
struct BoardGroup {
  std::vector<BoardSlot> slots;  // by place in the group
  std::vector<bool> here;
  size_t arrived = 0;
  uint64_t round = 0;  // complete rounds
  size_t reading = 0;  // members that read the others' memory
};

struct Board {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::vector<int>, BoardGroup> groups;
  std::vector<RankState> ranks;
  std::vector<int> statuses;                     // of ranks that ended
  size_t running = 0;                            // ranks whose body has not returned
  Clock::time_point last_change = Clock::now();  // of any rank's state
  std::optional<Fault> fault;
  std::string agreed;  // rank 0's answer to the last round of texts
};

// Waits until every member of the group is here, and returns where all their slots stand; nullptr with comm.fault set
// when that cannot be: a failure anywhere, a member that ended, the deadline. With a `slot` the caller reads the
// others' memory from then on, until finish_reading. Nobody returns with a failure while others still read: what they
// read would be gone.
[[nodiscard]] const std::vector<BoardSlot>* wait_for_group(Board& board, Comm& comm, const Group& group,
                                                           const BoardSlot* slot);

// The caller has read what it needs. After a failure it waits until the others have, too.
void finish_reading(Board& board, const Group& group);

// A rank's body has returned.
void post_end(Board& board, int rank, int status);

// Waits until all bodies have returned. Ranks that have ended wait for the others as in a step: a failure when none has
// moved on for `deadline` seconds. True when all have returned; false after a failure, when some have not within the
// second that a rank which works may take to notice.
[[nodiscard]] bool wait_for_ends(Board& board, double deadline);

}  // namespace tpplan
