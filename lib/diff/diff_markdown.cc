#include "diff/diff_markdown.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/markdown.h"
#include "base/path_patterns.h"
#include "base/text.h"
#include "diff/diff_rows.h"
#include "diff/diff_text.h"

namespace tpplan {
namespace {

// Limits: parts per cell, and characters per text.
constexpr size_t kMostParts = 6, kMostShown = 160;

using CellRow = std::vector<std::string>;

std::string cell_code(std::string_view text) {
  std::string cut(text);
  shorten(cut, kMostShown);
  return markdown_code(cut);
}

// Returns a table with a heading; empty without rows.
std::string cell_table(std::string_view title, std::span<const std::string_view> heads,
                       const std::vector<CellRow>& rows) {
  return rows.empty() ? "" : fmt::format("\n**{}**\n\n{}", title, markdown_table(heads, rows));
}

// Returns the first parts of a cell, one per line, with the number of omitted ones.
std::string parts_of(const std::vector<std::string>& parts) {
  const size_t count = std::min(parts.size(), kMostParts);
  std::string out = fmt::format("{}", fmt::join(std::span(parts).first(count), "<br>"));
  return count < parts.size() ? fmt::format("{}<br>and {} more", out, parts.size() - count) : out;
}

std::string rule_cell(const ManifestRule& rule) {
  return rule.in_block ? fmt::format("{} in {}", cell_code(rule.key), cell_code(rule.block)) : cell_code(rule.key);
}

std::string rules_table(const std::vector<RuleChange>& rules) {
  static constexpr std::string_view heads[] = {"", "rule", "#matched", "#matches"};
  const auto side = [](const std::optional<uint64_t>& count) { return count ? std::to_string(*count) : std::string(); };
  std::vector<CellRow> rows;
  for (const RuleChange& change : rules) {
    std::string name = rule_cell(*change.rule);
    if (change.renamed_from != nullptr) name += fmt::format(", was {}", rule_cell(*change.renamed_from));
    const char* what = !change.before        ? "added"
                       : !change.after       ? "removed"
                       : change.renamed_from ? "renamed"
                                             : "changed";
    rows.push_back({what, name, side(change.before), side(change.after)});
  }
  return cell_table("Rules", heads, rows);
}

std::string settings_table(const std::vector<FieldChange>& settings) {
  static constexpr std::string_view heads[] = {"setting", "before", "after"};
  std::vector<CellRow> rows;
  for (const FieldChange& change : settings)
    rows.push_back({cell_code(change.field), cell_code(change.before), cell_code(change.after)});
  return cell_table("Settings", heads, rows);
}

std::string families_cell(const ChangeGroup& group) {
  std::vector<std::string> names;
  for (const PathFamily& family : group.families) {
    const std::string path = ranged_path(family.paths);
    std::string name = cell_code(path.empty() ? "<root>" : path);
    if (family.of > 1)
      name += family.paths.size() == family.of ? fmt::format(" ({})", family.of)
                                               : fmt::format(" ({} of {})", family.paths.size(), family.of);
    names.push_back(std::move(name));
  }
  return parts_of(names);
}

// Returns the changed fields; for added and removed groups only those of the layout.
std::string fields_cell(const ChangeGroup& group) {
  static constexpr std::string_view kShort[] = {"shape", "dtype", "spec", "style"};
  std::vector<std::string> parts;
  for (const FieldChange& change : group.fields) {
    const bool is_changed = !change.before_json.empty() && !change.after_json.empty();
    if (is_changed)
      parts.push_back(fmt::format("{} {} → {}", change.field, cell_code(change.before), cell_code(change.after)));
    else if (std::ranges::find(kShort, change.field) != std::end(kShort))
      parts.push_back(
          fmt::format("{} {}", change.field, cell_code(change.before_json.empty() ? change.after : change.before)));
  }
  return parts_of(parts);
}

std::string list_table(const ListDiff& list, std::string_view title) {
  static constexpr std::string_view heads[] = {"", "path", "changed fields"};
  std::vector<CellRow> rows;
  const std::pair<const std::vector<ChangeGroup>*, std::string_view> kinds[] = {
      {&list.changed, "changed"}, {&list.added, "added"}, {&list.removed, "removed"}};
  for (const auto& [groups, what] : kinds) {
    for (const ChangeGroup& group : *groups)
      rows.push_back({std::string(what), families_cell(group), fields_cell(group)});
  }
  return cell_table(fmt::format("{}: {} changed, {} added, {} removed", title, list.changed_count, list.added_count,
                                list.removed_count),
                    heads, rows);
}

std::string collectives_table(const std::vector<CollectiveCount>& counts) {
  static constexpr std::string_view heads[] = {"collective", "axis", "#before", "#after"};
  std::vector<CellRow> rows;
  for (const CollectiveCount& c : counts) {
    if (c.before == c.after && c.bytes_before == c.bytes_after) continue;
    const auto side = [](uint64_t count, uint64_t bytes) {
      return bytes == 0 ? std::to_string(count) : fmt::format("{}, {}", count, human_bytes(bytes));
    };
    rows.push_back({fmt::format("{} {}", to_text(c.phase), cell_code(to_text(c.kind))), cell_code(c.axis),
                    side(c.before, c.bytes_before), side(c.after, c.bytes_after)});
  }
  return cell_table("Collectives", heads, rows);
}

std::string calls_table(const CallsDiff& calls) {
  static constexpr std::string_view heads[] = {"call", "axis", "module", "#before", "#after"};
  std::vector<CellRow> rows;
  for (const CallChange& c : calls.changes) {
    const auto side = [](uint64_t count, uint64_t bytes) { return fmt::format("{}, {}", count, human_bytes(bytes)); };
    rows.push_back({fmt::format("{} {}{}", c.backward ? "backward" : "forward", cell_code(to_text(c.kind)),
                                c.hidden ? ", hidden" : ""),
                    cell_code(c.axis), cell_code(ranged_path(c.modules)), side(c.before, c.bytes_before),
                    side(c.after, c.bytes_after)});
  }
  return cell_table(fmt::format("Calls of a step: {} → {}", calls.before, calls.after), heads, rows);
}

std::string numbers_table(std::string_view title, std::string_view what, const std::vector<NumberRow>& numbers) {
  const std::string_view heads[] = {what, "#before", "#after"};
  std::vector<CellRow> rows;
  for (const NumberRow& row : numbers) rows.push_back({std::string(row.name), row.before, row.after});
  return cell_table(title, heads, rows);
}

std::string step_table(const ManifestDiff& diff) {
  const std::string note = tokens_note(diff.step);
  return numbers_table(note.empty() ? "Step" : note, step_title(diff.step), step_rows(diff));
}

std::string time_table(const TimeDiff& time) {
  const std::string machine = time.machine.empty() ? "" : fmt::format(" on {}", cell_code(time.machine));
  if (const std::string_view gap = missing_time_text(time); !gap.empty())
    return fmt::format("\nTime of a step: {}.\n", gap);
  if (time.is_requested && time_rows(time).empty())
    return fmt::format("\nTime of a step{}: {}, as before.\n", machine, human_seconds(time.after->total));
  return numbers_table(fmt::format("Time of a step{}", machine), "rank 0", time_rows(time));
}

}  // namespace

std::string diff_markdown(const ManifestDiff& diff) {
  const std::string summary = diff_summary(diff);
  return fmt::format("### {}\n", summary.substr(0, summary.find('\n'))) + settings_table(diff.settings) +
         rules_table(diff.rules) + list_table(diff.parameters, "Parameters") + list_table(diff.buffers, "Buffers") +
         list_table(diff.modules, "Module boundaries") + collectives_table(diff.collectives) + calls_table(diff.calls) +
         numbers_table("Bytes", "bytes of parameters", byte_rows(diff.bytes_before, diff.bytes_after)) +
         step_table(diff) + time_table(diff.time);
}

}  // namespace tpplan
