#include "run_outcome.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>

#include "exec/ranks/gather.h"

namespace tpplan {
namespace {

// Message with a rank's results in schedule order: redistributions, their collectives, matmuls.
struct RankResults {
  std::vector<uint64_t> elements, wrong;  // of a redistribution; of a matmul's y, dx and dw
  std::vector<double> seconds;            // of a collective or a matmul
};
auto fields(RankResults& r) { return std::tie(r.elements, r.wrong, r.seconds); }

// Calls visit_count(elements, wrong) and visit_seconds(seconds) for the fields of an outcome, in a fixed order.
template <typename VisitCount, typename VisitSeconds>
void for_each_number(Outcome& outcome, VisitCount visit_count, VisitSeconds visit_seconds) {
  for (EntryResult& entry : outcome.redistributions.entries) visit_count(entry.elements, entry.wrong);
  for (CollectiveResult& collective : outcome.redistributions.collectives) visit_seconds(collective.seconds);
  for (MatmulResult& matmul : outcome.results) {
    visit_count(matmul.elements, matmul.wrong);
    visit_count(matmul.input_elements, matmul.input_wrong);
    visit_count(matmul.weight_elements, matmul.weight_wrong);
    visit_seconds(matmul.seconds);
  }
}

RankResults results_of(Outcome& outcome) {
  RankResults results;
  for_each_number(
      outcome,
      [&](uint64_t elements, uint64_t wrong) {
        results.elements.push_back(elements);
        results.wrong.push_back(wrong);
      },
      [&](double seconds) { results.seconds.push_back(seconds); });
  return results;
}

// Adds element counts and takes the maximum of times. Returns false if the results belong to different schedules.
bool add(RankResults& total, const RankResults& more) {
  if (total.elements.size() != more.elements.size() || total.wrong.size() != more.wrong.size() ||
      total.seconds.size() != more.seconds.size())
    return false;
  for (size_t i = 0; i < more.elements.size(); ++i) total.elements[i] += more.elements[i];
  for (size_t i = 0; i < more.wrong.size(); ++i) total.wrong[i] += more.wrong[i];
  for (size_t i = 0; i < more.seconds.size(); ++i) total.seconds[i] = std::max(total.seconds[i], more.seconds[i]);
  return true;
}

void put(const RankResults& results, Outcome& outcome) {
  size_t count = 0, time = 0;
  for_each_number(
      outcome,
      [&](uint64_t& elements, uint64_t& wrong) {
        elements = results.elements[count];
        wrong = results.wrong[count++];
      },
      [&](double& seconds) { seconds = results.seconds[time++]; });
}

}  // namespace

void combine(Comm& comm, Outcome& outcome) {
  begin_step(comm, "results of all ranks");
  put(fold(comm, results_of(outcome),
           [](RankResults& total, const RankResults& more, int rank) {
             if (!add(total, more))
               throw Fault{.code = Code::InvalidMessage,
                           .message = fmt::format("rank {} ran a different schedule than rank 0", rank),
                           .help = "install the same version on all ranks; if it is the same already, report a bug",
                           .rank = rank};
           }),
      outcome);
}

bool is_wrong(const MatmulResult& r) { return is_wrong(r.fault) || r.wrong + r.input_wrong + r.weight_wrong != 0; }

uint64_t count_wrong_steps(const Outcome& outcome) {
  const auto entries =
      std::ranges::count_if(outcome.redistributions.entries, [](const EntryResult& entry) { return entry.wrong != 0; });
  return static_cast<uint64_t>(
      entries + std::ranges::count_if(outcome.results, [](const MatmulResult& result) { return is_wrong(result); }));
}

}  // namespace tpplan
