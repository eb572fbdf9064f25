#include "manifest/diff_rows.h"

#include <spdlog/fmt/fmt.h>

#include <utility>

#include "base/text.h"

namespace tpplan {
namespace {

// What has grown tenfold and more is said in times.
std::string change_text(double before, double after) {
  if (before == 0) return {};
  return after >= 10 * before ? fmt::format("{:.0f} times", after / before)
                              : fmt::format("{:+.1f} %", 100 * (after - before) / before);
}

void add_byte_row(std::vector<NumberRow>& rows, std::string_view name, uint64_t before, uint64_t after) {
  if (before == after) return;
  NumberRow row{.name = name, .before = human_bytes(before), .after = human_bytes(after), .change = {}};
  if (row.before == row.after) {
    row.before = fmt::format("{} B", before);
    row.after = fmt::format("{} B", after);
  } else {
    row.change = change_text(static_cast<double>(before), static_cast<double>(after));
  }
  rows.push_back(std::move(row));
}

}  // namespace

std::vector<NumberRow> byte_rows(const RankBytes& before, const RankBytes& after) {
  std::vector<NumberRow> rows;
  add_byte_row(rows, "fullest rank", before.max, after.max);
  if (before.min && after.min) add_byte_row(rows, "emptiest rank", *before.min, *after.min);
  add_byte_row(rows, "ideal rank", before.ideal, after.ideal);
  add_byte_row(rows, "whole on every rank", before.replicated, after.replicated);
  add_byte_row(rows, "model", before.total, after.total);
  return rows;
}

std::vector<NumberRow> time_rows(const TimeDiff& time) {
  static constexpr std::pair<std::string_view, double StepSeconds::*> kMembers[] = {
      {"forward products", &StepSeconds::forward},
      {"backward products", &StepSeconds::backward},
      {"waiting", &StepSeconds::waited},
      {"beside products", &StepSeconds::overlapped},
      {"together", &StepSeconds::total}};
  std::vector<NumberRow> rows;
  if (!time.before || !time.after) return rows;
  for (const auto& [name, member] : kMembers) {
    const double before = (*time.before).*member, after = (*time.after).*member;
    NumberRow row{.name = name, .before = human_seconds(before), .after = human_seconds(after), .change = {}};
    if (row.before == row.after) continue;
    row.change = change_text(before, after);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string_view time_gap(const TimeDiff& time) {
  if (!time.is_asked || (time.before && time.after)) return {};
  return time.before  ? "the new manifest knows no operations of a step"
         : time.after ? "the old manifest knows no operations of a step"
                      : "the manifests know no operations of a step";
}

}  // namespace tpplan
