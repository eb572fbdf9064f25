// exchange_bytes: texts between ranks arrive unchanged for any group size, and large groups use few messages.
#include "exec/ranks/gather_bytes.h"

#include <doctest/doctest.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "exec/ranks/launch.h"

using namespace tpplan;

namespace {

const Backend* asked = nullptr;
std::atomic<size_t> most_members;

bool count_members(Comm& comm, const Group& group, const void* in, std::span<const uint64_t> sends, void* out,
                   std::span<const uint64_t> receives) {
  size_t most = most_members;
  while (most < group.ranks.size() && !most_members.compare_exchange_weak(most, group.ranks.size())) continue;
  return asked->all_to_all(comm, group, in, sends, out, receives);
}

// Returns a text of varying length, including zero.
std::string text_for(int from, int to) {
  return (from + to) % 3 == 0 ? "" : std::string(static_cast<size_t>(to % 5), '\0') + fmt::format("{}>{}", from, to);
}

}  // namespace

TEST_CASE("each rank gets all messages through its row and column") {
  for (const auto& [world, most] :
       {std::pair{1, 1}, {2, 2}, {15, 15}, {16, 4}, {17, 17}, {24, 6}, {36, 6}, {64, 8}, {96, 12}}) {
    most_members = 0;
    static Backend counting;
    const LaunchOptions options{.world = world, .deadline = 60, .agreement = "gather_bytes"};
    std::atomic<int> wrong = 0;
    std::once_flag once;
    const JobResult end = run_ranks(options, [&](Comm& comm) {
      std::call_once(once, [&] {
        asked = comm.backend;
        counting = *comm.backend;
        counting.all_to_all = count_members;
      });
      comm.backend = &counting;
      Group group{.self = static_cast<size_t>(comm.world - 1 - comm.rank)};  // in another order than their ids
      for (int rank = comm.world - 1; rank >= 0; --rank) group.ranks.push_back(rank);
      std::vector<std::string> mine;
      for (const int to : group.ranks) mine.push_back(text_for(comm.rank, to));
      begin_step(comm, "telling");
      const std::vector<std::string> told = exchange_bytes(comm, group, mine);
      wrong += told.size() != group.ranks.size();
      for (size_t i = 0; i < told.size(); ++i) wrong += told[i] != text_for(group.ranks[i], comm.rank);
      return 0;
    });
    CHECK(end.status == 0);
    CHECK(wrong == 0);
    CHECK(most_members == static_cast<size_t>(most));
  }
}
