// Known state of every rank of a job, and which rank delays the others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/ranks/backend.h"

namespace tpplan {

struct RankState {
  RankStep step;
  uint64_t calls = 0;  // Comm::calls
  bool ended = false;  // its body has returned, with any status
};

// Returns "step 5 (all_gather over tp)", or "its start" before the first step.
[[nodiscard]] std::string to_text(const RankStep& step);

// Returns "ranks 1, 2 and 5", or "ranks 0, 1, 2 and 61 more".
[[nodiscard]] std::string list_ranks(std::span<const int> ranks);

// Returns the fault that names the ranks for which `waiter` has waited in vain. All ranks make the same calls in the
// same order, so the ranks with the fewest calls delay the others. If no rank has fewer calls than `waiter`, the fault
// names the `absent` ranks, which have not arrived in the call.
[[nodiscard]] Fault late_rank_error(std::span<const RankState> ranks, int waiter, double seconds,
                                    const std::vector<int>& absent = {});

// Returns the fault for rank `ended`, which ended with `status` while `waiter` waits for it.
[[nodiscard]] Fault ended_rank_error(std::span<const RankState> ranks, int ended, int64_t status, int waiter);

}  // namespace tpplan
