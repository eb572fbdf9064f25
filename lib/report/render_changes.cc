#include "report/render_changes.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "report/html_text.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// Limits of the entries shown before a sentence that counts the rest.
constexpr size_t kMaxChangeGroups = 100, kMaxRuleChanges = 200, kMaxChangePatterns = 30;

// Returns a change with its sign: "+3", "−3".
std::string signed_text(bool grows, const std::string& amount) { return (grows ? "+" : "−") + amount; }
constexpr const char* kNoChange = "<span class=\"muted\">no change</span>";

std::string count_change(uint64_t before, uint64_t after) {
  return before == after ? kNoChange
                         : signed_text(after > before, grouped(after > before ? after - before : before - after));
}

// Returns the change in bytes as HTML, styled as an improvement if it is a decrease.
std::string bytes_change(uint64_t before, uint64_t after) {
  if (before == after) return kNoChange;
  return fmt::format("<span class=\"{}\">{}</span>", after > before ? "more-bytes" : "less-bytes",
                     signed_text(after > before, human_bytes(after > before ? after - before : before - after)));
}

std::string bytes_table(const ManifestDiff& diff) {
  static constexpr std::string_view heads[] = {"Of", "#Before", "#After", "#Change"};
  const RankBytes &a = diff.bytes_before, &b = diff.bytes_after;
  const std::pair<std::string_view, uint64_t RankBytes::*> members[] = {{"Fullest rank", &RankBytes::max},
                                                                        {"Ideal", &RankBytes::ideal},
                                                                        {"Replicated", &RankBytes::replicated},
                                                                        {"Unsharded model", &RankBytes::total}};
  std::string rows = row_html(
      heads, std::vector<std::string>{"Ranks", grouped(a.ranks), grouped(b.ranks), count_change(a.ranks, b.ranks)});
  if (a.min && b.min)
    rows += row_html(heads, std::vector<std::string>{"Emptiest rank", bytes_html(*a.min), bytes_html(*b.min),
                                                     bytes_change(*a.min, *b.min)});
  for (const auto& [name, member] : members) {
    rows += row_html(heads, std::vector<std::string>{std::string(name), bytes_html(a.*member), bytes_html(b.*member),
                                                     bytes_change(a.*member, b.*member)});
  }
  return table_html("Bytes of parameters", heads, rows);
}

std::string fields_table(std::string_view caption, const std::vector<FieldChange>& fields) {
  static constexpr std::string_view heads[] = {"What", "@Before", "@After"};
  std::string rows;
  for (const FieldChange& field : fields) {
    const auto side = [](const std::string& text) { return text.empty() ? std::string("—") : code(text); };
    rows += row_html(heads, std::vector<std::string>{html(field.field), side(field.before), side(field.after)});
  }
  return table_html(caption, heads, rows);
}

// Returns a summary with the values of the spec and the local shapes, and only the names of other fields: "spec [tp,
// null] → [null, tp], local_shapes [4, 8] → [8, 4], reason".
std::string summary_of(const ChangeGroup& group) {
  std::vector<std::string> parts;
  for (const FieldChange& field : group.fields) {
    const bool shown = field.field == "spec" || field.field == "local_shapes";
    parts.push_back(html(field.field) + (shown ? fmt::format(" {} → {}", html(field.before), html(field.after)) : ""));
  }
  return join(parts, ", ");
}

std::string group_html(const ChangeGroup& group, std::string_view verb, std::string_view noun) {
  std::vector<std::string_view> paths;
  for (const PathFamily& family : group.families) paths.insert(paths.end(), family.paths.begin(), family.paths.end());
  const std::vector<PathPattern> patterns = path_patterns(paths);
  std::string out = fmt::format(
      "<details class=\"change\">\n<summary><span class=\"what\">{}{}</span> <span class=\"count\">{} {}</span>",
      code(patterns[0].text),
      patterns.size() > 1
          ? fmt::format(" <span class=\"muted\">and {} more</span>", grouped(patterns.size() - 1, "pattern"))
          : "",
      grouped(group.count, noun), verb);
  if (verb == "changed") out += fmt::format(" <span class=\"line2\">{}</span>", summary_of(group));
  out += "</summary>\n<div class=\"body\">\n" +
         fields_table(verb == "changed" ? "Differences" : "Fields in the manifest", group.fields);
  return out + "<dl class=\"facts\">\n" + description_item("Of", patterns_html(patterns, kMaxChangePatterns, noun)) +
         "</dl>\n</div>\n</details>\n";
}

std::string list_html(const ListDiff& list, std::string_view noun) {
  if (list.added_count + list.removed_count + list.changed_count == 0) return "";
  std::string out = fmt::format("<h3>{}: {} changed, {} added, {} removed</h3>\n", grouped(list.after, noun),
                                grouped(list.changed_count), grouped(list.added_count), grouped(list.removed_count));
  size_t remaining_groups = kMaxChangeGroups, groups_over = 0;
  uint64_t over = 0;
  const std::pair<std::string_view, const std::vector<ChangeGroup>*> kinds[] = {
      {"changed", &list.changed}, {"added", &list.added}, {"removed", &list.removed}};
  for (const auto& [verb, groups] : kinds) {
    for (const ChangeGroup& group : *groups) {
      if (remaining_groups > 0) {
        out += group_html(group, verb, noun);
        --remaining_groups;
      } else {
        over += group.count;
        ++groups_over;
      }
    }
  }
  if (groups_over > 0)
    out += fmt::format("<p class=\"more\">And {} in {} more. <code>tpplan diff OLD NEW</code> lists them.</p>\n",
                       grouped(over, noun), grouped(groups_over, "group"));
  return out;
}

std::string rule_name_html(const ManifestRule& rule) {
  return rule.in_block ? fmt::format("{} <span class=\"muted\">in</span> {}", code(rule.key), code(rule.block))
                       : code(rule.key);
}

std::string rules_html(const std::vector<RuleChange>& rules) {
  static constexpr std::string_view heads[] = {"@Rule", "#Matched", "#Matches"};
  if (rules.empty()) return "";
  std::string rows;
  for (const RuleChange& change : std::span(rules).first(std::min(kMaxRuleChanges, rules.size()))) {
    const auto side = [](const std::optional<uint64_t>& matches) {
      return matches ? grouped(*matches) : std::string("missing");
    };
    std::string name = rule_name_html(*change.rule);
    if (change.renamed_from != nullptr)
      name += fmt::format(" <span class=\"muted\">was</span> {}", rule_name_html(*change.renamed_from));
    rows += row_html(heads, std::vector<std::string>{name, side(change.before), side(change.after)});
  }
  std::string out = "<h3>Rules</h3>\n" +
                    table_html("Rules that are added, removed, renamed, or match a different number", heads, rows);
  if (rules.size() > kMaxRuleChanges)
    out += fmt::format("<p class=\"more\">And {} more.</p>\n", grouped(rules.size() - kMaxRuleChanges, "rule"));
  return out;
}

// Returns the table of collectives whose count or bytes changed. Empty if only single calls changed, because calls_html
// lists those.
std::string collectives_html(const std::vector<CollectiveCount>& collectives, const CallsDiff& calls) {
  static constexpr std::string_view heads[] = {"Axis",   "Collective", "Pass",          "#Before",
                                               "#After", "#Change",    "#Bytes before", "#Bytes after"};
  std::string rows;
  for (const CollectiveCount& c : collectives) {
    if (c.before == c.after && c.bytes_before == c.bytes_after) continue;
    const bool sized = c.phase == CommPhase::Gather || c.phase == CommPhase::Gradient;
    rows += row_html(heads, std::vector<std::string>{
                                code(c.axis), std::string(to_text(c.kind)), std::string(to_text(c.phase)),
                                grouped(c.before), grouped(c.after), count_change(c.before, c.after),
                                sized ? bytes_html(c.bytes_before) : "", sized ? bytes_html(c.bytes_after) : ""});
  }
  if (rows.empty()) return calls.changes.empty() ? "<p>The collectives are the same.</p>\n" : "";
  return "<h3>Collectives</h3>\n" + table_html("Places with more or fewer collectives", heads, rows);
}

std::string calls_html(const CallsDiff& calls) {
  static constexpr std::string_view heads[] = {"@Module", "Pass",   "Collective",    "Axis",        "Input",
                                               "#Before", "#After", "#Bytes before", "#Bytes after"};
  if (calls.known_before != calls.known_after)
    return fmt::format("<p>Only the {} manifest lists the calls of a step.</p>\n", calls.known_after ? "new" : "old");
  if (calls.changes.empty()) return "";
  std::string rows;
  for (const CallChange& c : std::span(calls.changes).first(std::min(kMaxRuleChanges, calls.changes.size()))) {
    rows += row_html(
        heads,
        std::vector<std::string>{
            code(ranged_path(c.modules)), pass_text(c.backward, c.hidden), std::string(to_text(c.kind)), code(c.axis),
            fmt::format("{} {}", shape_text(c.after > 0 ? c.shapes_after[0] : c.shapes_before[0]), html(c.dtype)),
            grouped(c.before), grouped(c.after), bytes_html(c.bytes_before), bytes_html(c.bytes_after)});
  }
  std::string out = table_html(
      fmt::format("Calls of a step: {} before, {} after", grouped(calls.before), grouped(calls.after)), heads, rows);
  if (calls.changes.size() > kMaxRuleChanges)
    out += fmt::format("<p class=\"more\">And {} more.</p>\n",
                       grouped(calls.changes.size() - kMaxRuleChanges, "kind of call"));
  return out;
}

}  // namespace

bool render_changes(const Manifest& old_manifest, const Manifest& new_manifest, const ManifestDiff& diff,
                    const Sink& sink) {
  std::string out =
      fmt::format("<section id=\"changes\">\n<h2>Changes</h2>\n<p>Compared with the manifest of {} on {}.</p>\n",
                  code(old_manifest.model_name), html(to_text(old_manifest.mesh)));
  if (diff.same) return sink(out + "<p>Nothing is different.</p>\n</section>\n");
  out += bytes_table(diff);
  if (!diff.settings.empty()) out += fields_table("Settings", diff.settings);
  if (old_manifest.model_name != new_manifest.model_name)
    out += fmt::format("<p>The model was {} and is {}.</p>\n", code(old_manifest.model_name),
                       code(new_manifest.model_name));
  for (const auto& [list, noun] : {std::pair{&diff.parameters, "parameter"}, std::pair{&diff.buffers, "buffer"},
                                   std::pair{&diff.modules, "module boundary"}})
    out += list_html(*list, noun);
  return sink(out + rules_html(diff.rules) + collectives_html(diff.collectives, diff.calls) + calls_html(diff.calls) +
              "</section>\n");
}

}  // namespace tpplan
