#include "diff/diff_text.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <span>
#include <tuple>

#include "base/path_patterns.h"
#include "base/text.h"
#include "diff/diff_rows.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// Limits of printed lists and texts. The JSON output is complete.
constexpr size_t kMostEntries = 100, kMostFamilies = 20, kMostTextBytes = 400;
constexpr std::string_view kAllInJson = "`--format json` lists all";

std::string bounded_text(std::string_view text) {
  std::string part(text);
  shorten(part, kMostTextBytes);
  return escape_for_terminal(part);
}

// Returns entries with a heading. Counts the entries beyond kMostEntries. Empty without entries.
std::string entries_text(std::string_view heading, const std::vector<std::string>& entries) {
  if (entries.empty()) return {};
  std::string out(heading);
  for (size_t i = 0; i < std::min(entries.size(), kMostEntries); ++i) out += entries[i];
  if (entries.size() > kMostEntries)
    out += fmt::format("  and {} more: {}\n", entries.size() - kMostEntries, kAllInJson);
  return out;
}

uint64_t differing(const ListDiff& list) { return list.added_count + list.removed_count + list.changed_count; }

std::string arrow(const std::string& before, const std::string& after) {
  return before == after ? after : before + " -> " + after;
}

std::string summary_line(const ManifestDiff& d) {
  const std::string bytes = arrow(human_bytes(d.bytes_before.max), human_bytes(d.bytes_after.max));
  if (d.same)
    return fmt::format("the manifests are equal: {}, {} per rank\n", counted(d.parameters.after, "parameter"), bytes);
  const auto part = [](const ListDiff& list, std::string_view noun) {
    const uint64_t all = list.after + list.removed_count;
    return fmt::format("{} of {} {}", differing(list), counted(all, noun), differing(list) == 1 ? "differs" : "differ");
  };
  std::string out = part(d.parameters, "parameter");
  if (differing(d.modules) > 0)
    out += ", " + part(d.modules, "module boundary");
  else if (differing(d.parameters) == 0) {
    // Minor differences are in the summary only if there are no others.
    if (differing(d.buffers) > 0) out += ", " + part(d.buffers, "buffer");
    for (const auto& [count, noun] : {std::pair{d.settings.size(), "setting"}, std::pair{d.rules.size(), "rule"}}) {
      if (count > 0) out += fmt::format(", {} {}", counted(count, noun), count == 1 ? "differs" : "differ");
    }
    if (!d.calls.changes.empty())
      out += fmt::format(", a step makes {} -> {}", d.calls.before, counted(d.calls.after, "call"));
  }
  return out + fmt::format("; {} per rank\n", bytes);
}

// Returns before and after on one line if it fits in 80 columns, otherwise on two lines.
std::string fields_text(const std::vector<FieldChange>& fields, std::string_view indent) {
  std::string out;
  for (const FieldChange& f : fields) {
    const std::string before = bounded_text(f.before), after = bounded_text(f.after);
    const size_t margin = indent.size() + std::max<size_t>(12, f.field.size()) + 2;
    const bool fits = margin + count_code_points(before) + count_code_points(after) + 4 <= 80;
    out += fmt::format("{}{:<12}  {}{}-> {}\n", indent, f.field, before,
                       fits ? " " : "\n" + std::string(margin - 3, ' '), after);
  }
  return out;
}

// Returns a short text for an added or removed group.
std::string one_sided_text(const ChangeGroup& group) {
  static constexpr std::string_view kShort[] = {"shape", "dtype", "spec", "style", "rule"};
  std::string out;
  for (const FieldChange& f : group.fields) {
    const std::string& text = f.after_json.empty() ? f.before : f.after;
    if (text == "none" || std::find(std::begin(kShort), std::end(kShort), f.field) == std::end(kShort)) continue;
    out += (out.empty() ? "" : "  ") + bounded_text(text);
  }
  return out;
}

std::string group_text(const ChangeGroup& group, char sign) {
  std::string out;
  for (const PathFamily& family : std::span(group.families).first(std::min(group.families.size(), kMostFamilies))) {
    const std::string name = ranged_path(family.paths);
    out += fmt::format("  {} {}", sign, name.empty() ? "<root>" : bounded_text(name));
    if (family.paths.size() > 1 || family.of > 1) {
      const bool all = family.paths.size() == family.of;
      out += all ? fmt::format("  ({})", family.of) : fmt::format("  ({} of {})", family.paths.size(), family.of);
    }
    out += '\n';
  }
  if (group.families.size() > kMostFamilies)
    out += fmt::format("    and {} more: {}\n", group.families.size() - kMostFamilies, kAllInJson);
  if (sign != '~') return out + fmt::format("      {}\n", one_sided_text(group));
  const PathFamily& first = group.families[0];
  if (first.paths.size() > 1) out += fmt::format("      {:<12}  {}\n", "such as", bounded_text(first.paths[0]));
  return out + fields_text(group.fields, "      ");
}

std::string list_diff_text(const ListDiff& list, std::string_view title) {
  std::string out;
  for (const auto& [groups, sign] :
       {std::pair{&list.changed, '~'}, std::pair{&list.added, '+'}, std::pair{&list.removed, '-'}}) {
    uint64_t left = 0;
    for (size_t i = 0; i < groups->size(); ++i) {
      if (i < kMostEntries)
        out += group_text((*groups)[i], sign);
      else
        left += (*groups)[i].count;
    }
    if (left > 0)
      out += fmt::format("  {} and {} more, in {}: {}\n", sign, left, counted(groups->size() - kMostEntries, "group"),
                         kAllInJson);
  }
  if (out.empty()) return out;
  return fmt::format("\n{}: {} changed, {} added, {} removed\n", title, list.changed_count, list.added_count,
                     list.removed_count) +
         out;
}

std::string name_text(const ManifestRule& rule) {
  return bounded_text(rule.in_block ? rule.block + " / " + rule.key : rule.key);
}

std::string rules_text(const std::vector<RuleChange>& rules) {
  std::vector<std::string> entries;
  for (const RuleChange& change : rules) {
    const std::string name = name_text(*change.rule);
    if (!change.before)
      entries.push_back(fmt::format("  + {}  matches {}\n", name, *change.after));
    else if (!change.after)
      entries.push_back(fmt::format("  - {}  matched {}\n", name, *change.before));
    else
      entries.push_back(
          fmt::format("  ~ {}  matches {}\n",
                      change.renamed_from == nullptr ? name : name_text(*change.renamed_from) + " -> " + name,
                      arrow(std::to_string(*change.before), std::to_string(*change.after))));
  }
  return entries_text("\nrules\n", entries);
}

std::string collectives_text(const std::vector<CollectiveCount>& counts) {
  std::string out;
  for (const CollectiveCount& c : counts) {
    if (c.before == c.after && c.bytes_before == c.bytes_after) continue;
    const bool more = std::tie(c.before, c.bytes_before) < std::tie(c.after, c.bytes_after);
    out += fmt::format("  {} {:<8}  {} over {}  {} -> {}", more ? '+' : '-', to_text(c.phase), to_text(c.kind),
                       escape_for_terminal(c.axis), c.before, c.after);
    if (c.before < c.after) out += fmt::format(" (+{})", c.after - c.before);
    if (c.before > c.after) out += fmt::format(" (-{})", c.before - c.after);
    if (c.bytes_before != c.bytes_after)
      out += fmt::format(", {} -> {}", human_bytes(c.bytes_before), human_bytes(c.bytes_after));
    out += '\n';
  }
  return out.empty() ? out : "\ncollectives\n" + out;
}

// Returns text such as "[2, 16]"; "none" without calls; for several shapes the first one and their number.
std::string shapes_text(const std::vector<std::vector<int64_t>>& shapes) {
  if (shapes.empty()) return "none";
  return shapes.size() == 1 ? shape_text(shapes[0])
                            : fmt::format("{} and {} more", shape_text(shapes[0]), shapes.size() - 1);
}

std::string calls_text(const CallsDiff& calls) {
  if (calls.known_before != calls.known_after)
    return fmt::format("\ncalls of a step\n  only the {} manifest lists them\n", calls.known_after ? "new" : "old");
  std::vector<std::string> entries;
  for (const CallChange& c : calls.changes) {
    const char sign = c.before == 0 ? '+' : c.after == 0 ? '-' : '~';
    entries.push_back(
        fmt::format("  {} {:<8}  {} over {}  {}{}\n      {} {}, {}, {} {}\n", sign, c.backward ? "backward" : "forward",
                    to_text(c.kind), escape_for_terminal(c.axis), bounded_text(ranged_path(c.modules)),
                    c.hidden ? ", hidden" : "", arrow(fmt::format("{}", c.before), fmt::format("{}", c.after)),
                    c.before == 1 && c.after == 1 ? "call" : "calls",
                    arrow(human_bytes(c.bytes_before), human_bytes(c.bytes_after)),
                    arrow(shapes_text(c.shapes_before), shapes_text(c.shapes_after)), escape_for_terminal(c.dtype)));
  }
  return entries_text(fmt::format("\ncalls of a step: {} -> {}, {} of inputs on rank 0\n", calls.before, calls.after,
                                  arrow(human_bytes(calls.bytes_before), human_bytes(calls.bytes_after))),
                      entries);
}

std::string numbers_text(std::string_view title, const std::vector<NumberRow>& rows) {
  std::string out;
  for (const NumberRow& row : rows)
    out += row.before == row.after ? fmt::format("  {:<20}  {}, as before\n", row.name, row.before)
                                   : fmt::format("  {:<20}  {} -> {}{}\n", row.name, row.before, row.after,
                                                 row.change.empty() ? "" : fmt::format(" ({})", row.change));
  return out.empty() ? out : fmt::format("\n{}\n{}", title, out);
}

std::string step_text(const ManifestDiff& diff) {
  const std::string note = tokens_note(diff.step);
  return numbers_text(step_title(diff.step), step_rows(diff)) +
         (note.empty() ? "" : fmt::format("  = note: {}\n", note));
}

std::string time_text(const TimeDiff& time) {
  if (const std::string_view gap = missing_time_text(time); !gap.empty())
    return fmt::format("\ntime of a step\n  {}\n", gap);
  const std::string machine = time.machine.empty() ? "" : fmt::format(" on {}", escape_for_terminal(time.machine));
  if (time.is_requested && time_rows(time).empty())
    return fmt::format("\ntime of a step{}\n  {:<20}  {}, as before\n", machine, "together",
                       human_seconds(time.after->total));
  return numbers_text(fmt::format("time of a step, rank 0{}", machine), time_rows(time));
}

}  // namespace

std::string diff_summary(const ManifestDiff& diff) {
  std::string out = summary_line(diff);
  if (!diff.inputs.empty()) {
    std::vector<std::string> names;
    for (const FieldChange& f : diff.inputs) names.emplace_back(f.field);
    std::string list = join(names, ", ");
    std::replace(list.begin(), list.end(), '_', ' ');
    out += fmt::format("  = note: compiled from other inputs ({}), which do not count as a difference\n", list);
  }
  return out;
}

std::string diff_text(const ManifestDiff& diff) {
  std::string out;
  if (!diff.settings.empty()) out += "\nsettings\n" + fields_text(diff.settings, "  ~ ");
  return out + rules_text(diff.rules) + list_diff_text(diff.parameters, "parameters") +
         list_diff_text(diff.buffers, "buffers") + list_diff_text(diff.modules, "module boundaries") +
         collectives_text(diff.collectives) + calls_text(diff.calls) +
         numbers_text("bytes", byte_rows(diff.bytes_before, diff.bytes_after)) + step_text(diff) + time_text(diff.time);
}

}  // namespace tpplan
