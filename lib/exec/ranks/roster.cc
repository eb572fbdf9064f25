#include "exec/ranks/roster.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"

namespace tpplan {

std::string to_text(const RankStep& step) {
  if (step.number == 0) return "its start";
  return fmt::format("step {} ({})", step.number, escape_for_terminal(step.what));
}

std::string list_ranks(std::span<const int> ranks) {
  constexpr size_t kShown = 8;
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  std::string text = "ranks ";
  const size_t shown = ranks.size() > kShown ? 3 : ranks.size() - 1;
  for (size_t i = 0; i < shown; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  return text + (ranks.size() > kShown ? fmt::format(" and {} more", ranks.size() - shown)
                                       : fmt::format(" and {}", ranks.back()));
}

Fault late_rank_error(std::span<const RankState> ranks, int waiter, double seconds, const std::vector<int>& absent) {
  const RankState& own = ranks[static_cast<size_t>(waiter)];
  const uint64_t fewest = std::ranges::min(ranks, {}, &RankState::calls).calls;
  std::vector<int> late;
  for (size_t i = 0; i < ranks.size() && fewest < own.calls; ++i) {
    if (ranks[i].calls == fewest) late.push_back(static_cast<int>(i));
  }
  if (late.empty()) late = absent;
  const std::string waits = fmt::format("rank {} has waited {:.3g} s at {}", waiter, seconds, to_text(own.step));
  if (late.empty())
    return {
        .code = Code::RankLate,
        .message = waits + ", although all ranks participate: their connection is broken or too slow for this deadline",
        .help = "increase --deadline, or check the network between the ranks",
        .rank = waiter};
  const RankState& first = ranks[static_cast<size_t>(late[0])];
  return {.code = Code::RankLate,
          .message = fmt::format("{} for {}, which {} {}", waits, list_ranks(late),
                                 first.ended        ? "ended after"
                                 : late.size() == 1 ? "is still at"
                                                    : "are still at",
                                 to_text(first.step)),
          .help = "check what delays it there, or increase --deadline",
          .rank = late[0]};
}

Fault ended_rank_error(std::span<const RankState> ranks, int ended, int64_t status, int waiter) {
  return {.code = Code::RankEndedEarly,
          .message = fmt::format("rank {} ended after {} with status {}, while rank {} waits for it at {}", ended,
                                 to_text(ranks[static_cast<size_t>(ended)].step), status, waiter,
                                 to_text(ranks[static_cast<size_t>(waiter)].step)),
          .help = fmt::format("check the standard error of rank {}", ended),
          .rank = ended};
}

}  // namespace tpplan
