#include "exec/ranks/local_board.h"

#include <algorithm>

#include "exec/ranks/deadline.h"

namespace tpplan {
namespace {

constexpr double kNoticeSeconds = 1;  // time for running ranks to notice a failure

// Returns a rank of the group that ended without arriving at the barrier; -1: none.
int ended_rank(const Board& board, const Group& group, const BoardGroup& point) {
  if (board.running == board.ranks.size()) return -1;
  for (size_t i = 0; i < group.ranks.size(); ++i) {
    if (!point.here[i] && board.ranks[static_cast<size_t>(group.ranks[i])].ended) return group.ranks[i];
  }
  return -1;
}

// Returns the ranks of the group that have not arrived at the barrier. They may be stuck in the call itself or before
// it.
std::vector<int> absent_ranks(const Group& group, const BoardGroup& point) {
  std::vector<int> absent;
  for (size_t i = 0; i < group.ranks.size(); ++i) {
    if (!point.here[i]) absent.push_back(group.ranks[i]);
  }
  return absent;
}

}  // namespace

const std::vector<BoardSlot>* wait_for_group(Board& board, Comm& comm, const Group& group, const BoardSlot* slot) {
  std::unique_lock lock(board.mutex);
  BoardGroup& point = board.groups[group.ranks];
  if (point.slots.empty()) {
    point.slots.resize(group.ranks.size());
    point.here.resize(group.ranks.size());
  }
  const uint64_t round = point.round;
  if (slot != nullptr) point.slots[group.self] = *slot;
  point.here[group.self] = true;
  if (++point.arrived == group.ranks.size()) {
    point.arrived = 0;
    point.here.assign(group.ranks.size(), false);
    ++point.round;
    board.changed.notify_all();
  }
  const auto deadline = after(comm.deadline);
  int ended = -1;
  const auto is_over = [&] {
    return point.round != round || board.fault || (ended = ended_rank(board, group, point)) >= 0;
  };
  const bool in_time = board.changed.wait_until(lock, deadline, is_over);
  if (!board.fault && point.round == round) {
    if (!in_time) {
      board.fault = late_rank_error(board.ranks, comm.rank, comm.deadline, absent_ranks(group, point));
    } else {
      board.fault = ended_rank_error(board.ranks, ended, board.statuses[static_cast<size_t>(ended)], comm.rank);
    }
    board.changed.notify_all();
  }
  if (!board.fault) {
    point.reading += slot != nullptr;
    return &point.slots;
  }
  comm.fault = board.fault;
  board.changed.wait(lock, [&] { return point.reading == 0; });
  return nullptr;
}

void finish_reading(Board& board, const Group& group) {
  std::unique_lock lock(board.mutex);
  BoardGroup& point = board.groups[group.ranks];
  if (--point.reading == 0) board.changed.notify_all();
  if (board.fault) board.changed.wait(lock, [&] { return point.reading == 0; });
}

void post_rank_end(Board& board, int rank, int status) {
  const std::lock_guard lock(board.mutex);
  RankState& state = board.ranks[static_cast<size_t>(rank)];
  state.ended = true;
  ++state.calls;  // the end counts as a call, so that a rank that has not ended has fewer calls
  board.statuses[static_cast<size_t>(rank)] = status;
  --board.running;
  board.last_change = Clock::now();
  board.changed.notify_all();
}

bool wait_for_ends(Board& board, double deadline) {
  std::unique_lock lock(board.mutex);
  const auto is_over = [&] { return board.running == 0 || board.fault; };
  const auto find_ended = [&] { return std::ranges::find(board.ranks, true, &RankState::ended); };
  // While all ranks are running there is no deadline: a job may take any time.
  board.changed.wait(lock, [&] { return is_over() || find_ended() != board.ranks.end(); });
  while (!is_over()) {
    // Recomputed in each iteration: last_change advances without a notification.
    const auto limit = after(deadline, board.last_change);
    if (Clock::now() < limit) {
      board.changed.wait_until(lock, limit);
    } else {
      board.fault = late_rank_error(board.ranks, static_cast<int>(find_ended() - board.ranks.begin()), deadline);
      board.changed.notify_all();
    }
  }
  return board.changed.wait_until(lock, after(kNoticeSeconds), [&] { return board.running == 0; });
}

}  // namespace tpplan
