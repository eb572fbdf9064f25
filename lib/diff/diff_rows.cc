#include "diff/diff_rows.h"

#include <spdlog/fmt/fmt.h>

#include <utility>

#include "base/text.h"

namespace tpplan {
namespace {

// Returns the change in percent, or as a factor if the number grew at least tenfold.
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

// Returns what tokens_of counts.
std::string_view data_noun(const StepTotals& step) {
  return step.sequence > 0 ? "tokens" : step.batch > 0 ? "samples" : "data ranks";
}

}  // namespace

std::vector<NumberRow> byte_rows(const RankBytes& before, const RankBytes& after) {
  std::vector<NumberRow> rows;
  add_byte_row(rows, "fullest rank", before.max, after.max);
  if (before.min && after.min) add_byte_row(rows, "emptiest rank", *before.min, *after.min);
  add_byte_row(rows, "ideal rank", before.ideal, after.ideal);
  add_byte_row(rows, "replicated", before.replicated, after.replicated);
  add_byte_row(rows, "model", before.total, after.total);
  return rows;
}

std::vector<NumberRow> step_rows(const ManifestDiff& diff) {
  std::vector<NumberRow> rows;
  const StepTotals &before = diff.step.before, &after = diff.step.after;
  if (!diff.step.is_requested || diff.same) return rows;
  const auto add = [&rows](std::string_view name, std::optional<uint64_t> old_bytes,
                           std::optional<uint64_t> new_bytes) {
    if (!old_bytes || !new_bytes) return;
    add_byte_row(rows, name, *old_bytes, *new_bytes);
    if (old_bytes == new_bytes)
      rows.push_back({.name = name, .before = human_bytes(*old_bytes), .after = human_bytes(*new_bytes), .change = {}});
  };
  add("sent", before.sent, after.sent);
  if (before.has_activations == after.has_activations)
    add(diff.step.has_run ? "memory, active" : "memory", before.memory, after.memory);
  add("memory, reserved", before.reserved, after.reserved);
  if (before.seconds && after.seconds) {
    NumberRow row{
        .name = "time", .before = human_seconds(*before.seconds), .after = human_seconds(*after.seconds), .change = {}};
    if (row.before != row.after) row.change = change_text(*before.seconds, *after.seconds);
    rows.push_back(std::move(row));
  }
  if (tokens_of(before) != tokens_of(after))
    rows.push_back(
        {.name = data_noun(after),
         .before = std::to_string(tokens_of(before)),
         .after = std::to_string(tokens_of(after)),
         .change = change_text(static_cast<double>(tokens_of(before)), static_cast<double>(tokens_of(after)))});
  return rows;
}

std::string step_title(const StepDiff& step) {
  return fmt::format("step, rank 0, recipe {}{}", step.recipe,
                     step.before.has_activations && step.after.has_activations ? "" : ", without activations");
}

std::string tokens_note(const StepDiff& step) {
  if (!step.is_requested || tokens_of(step.before) == tokens_of(step.after)) return {};
  const std::string_view noun = data_noun(step.after);
  return fmt::format("a step trains {} {} instead of {}: compare its costs per {}", tokens_of(step.after), noun,
                     tokens_of(step.before), noun.substr(0, noun.size() - 1));
}

std::vector<NumberRow> time_rows(const TimeDiff& time) {
  static constexpr std::pair<std::string_view, double StepSeconds::*> kFields[] = {
      {"forward matmuls", &StepSeconds::forward},
      {"backward matmuls", &StepSeconds::backward},
      {"waiting", &StepSeconds::waited},
      {"overlap with matmuls", &StepSeconds::overlapped},
      {"together", &StepSeconds::total}};
  std::vector<NumberRow> rows;
  if (!time.before || !time.after) return rows;
  for (const auto& [name, member] : kFields) {
    const double before = (*time.before).*member, after = (*time.after).*member;
    NumberRow row{.name = name, .before = human_seconds(before), .after = human_seconds(after), .change = {}};
    if (row.before == row.after) continue;
    row.change = change_text(before, after);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string_view missing_time_text(const TimeDiff& time) {
  if (!time.is_requested || (time.before && time.after)) return {};
  return time.before  ? "the new manifest has no operations of a step"
         : time.after ? "the old manifest has no operations of a step"
                      : "the manifests have no operations of a step";
}

}  // namespace tpplan
