// Where every rank of a job stands, as far as is known, and who holds up the others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ranks/backend.h"

namespace tpplan {

struct RankState {
  RankStep step;
  uint64_t calls = 0;  // Comm::calls
  bool ended = false;  // left its work, with status 0 or another
};

// "step 5 (all_gather over tp)"; "its start" before the first step.
[[nodiscard]] std::string to_text(const RankStep& step);

// "ranks 1, 2 and 5", "ranks 0, 1, 2 and 61 more".
[[nodiscard]] std::string list_ranks(std::span<const int> ranks);

// Whom `waiter` has waited for in vain. Ranks make the same calls in the same order, so it is those who have made the
// fewest, wherever a chain of waiting ranks begins; where all have made the same, those that are `absent` from the
// call.
[[nodiscard]] Fault late_fault(std::span<const RankState> ranks, int waiter, double seconds,
                               const std::vector<int>& absent = {});

// Rank `ended` has left its work with `status`, and `waiter` still waits for it.
[[nodiscard]] Fault ended_fault(std::span<const RankState> ranks, int ended, int64_t status, int waiter);

}  // namespace tpplan
