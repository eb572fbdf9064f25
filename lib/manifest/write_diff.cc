#include "manifest/write_diff.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "manifest/manifest_json.h"
#include "sharding/tensor_size.h"

namespace tpplan {
namespace {

// ---- words ----

uint64_t differing(const ListDiff& list) { return list.added_count + list.removed_count + list.changed_count; }

std::string arrow(const std::string& before, const std::string& after) {
  return before == after ? after : before + " -> " + after;
}

std::string summary_line(const ManifestDiff& d) {
  const std::string bytes = arrow(human_bytes(d.bytes_before.max), human_bytes(d.bytes_after.max));
  if (d.same)
    return fmt::format("the manifests say the same: {}, {} per rank\n", counted(d.parameters.after, "parameter"),
                       bytes);
  const auto part = [](const ListDiff& list, std::string_view noun) {
    const uint64_t all = list.after + list.removed_count;
    return fmt::format("{} of {} {}", differing(list), counted(all, noun), differing(list) == 1 ? "differs" : "differ");
  };
  std::string out = part(d.parameters, "parameter");
  if (differing(d.modules) > 0)
    out += ", " + part(d.modules, "module boundary");
  else if (differing(d.parameters) == 0) {
    // What is left to differ is said here only when it is all there is.
    if (differing(d.buffers) > 0) out += ", " + part(d.buffers, "buffer");
    for (const auto& [count, noun] : {std::pair{d.settings.size(), "setting"}, std::pair{d.rules.size(), "rule"}}) {
      if (count > 0) out += fmt::format(", {} {}", counted(count, noun), count == 1 ? "differs" : "differ");
    }
    if (!d.calls.changes.empty())
      out += fmt::format(", a step makes {} -> {}", d.calls.before, counted(d.calls.after, "call"));
  }
  return out + fmt::format("; {} per rank\n", bytes);
}

std::string fields_text(const std::vector<FieldChange>& fields, std::string_view indent) {
  std::string out;
  for (const FieldChange& f : fields) {
    out += fmt::format("{}{:<12}  {} -> {}\n", indent, f.field, escape_for_terminal(f.before),
                       escape_for_terminal(f.after));
  }
  return out;
}

// What was added or removed, in short.
std::string one_sided_text(const ChangeGroup& group) {
  static constexpr std::string_view shown[] = {"shape", "dtype", "spec", "style", "rule"};
  std::string out;
  for (const FieldChange& f : group.fields) {
    const std::string& text = f.after_json.empty() ? f.before : f.after;
    if (text == "none" || std::find(std::begin(shown), std::end(shown), f.field) == std::end(shown)) continue;
    out += (out.empty() ? "" : "  ") + escape_for_terminal(text);
  }
  return out;
}

std::string group_text(const ChangeGroup& group, char sign) {
  std::string out;
  for (const PathFamily& family : group.families) {
    const std::string_view name = family.paths.size() == 1 ? family.paths[0] : std::string_view(family.pattern);
    out += fmt::format("  {} {}", sign, name.empty() ? "<root>" : escape_for_terminal(name));
    if (family.paths.size() > 1 || family.of > 1) {
      const bool all = family.paths.size() == family.of;
      out += all ? fmt::format("  ({})", family.of) : fmt::format("  ({} of {})", family.paths.size(), family.of);
    }
    out += '\n';
  }
  if (sign != '~') return out + fmt::format("      {}\n", one_sided_text(group));
  const PathFamily& first = group.families[0];
  if (first.paths.size() > 1) out += fmt::format("      {:<12}  {}\n", "such as", escape_for_terminal(first.paths[0]));
  return out + fields_text(group.fields, "      ");
}

std::string list_text(const ListDiff& list, std::string_view title) {
  std::string out;
  for (const auto& [groups, sign] :
       {std::pair{&list.changed, '~'}, std::pair{&list.added, '+'}, std::pair{&list.removed, '-'}}) {
    for (const ChangeGroup& group : *groups) out += group_text(group, sign);
  }
  if (out.empty()) return out;
  return fmt::format("\n{}: {} changed, {} added, {} removed\n", title, list.changed_count, list.added_count,
                     list.removed_count) +
         out;
}

std::string rules_text(const std::vector<RuleChange>& rules) {
  std::string out;
  for (const RuleChange& change : rules) {
    const ManifestRule& rule = *change.rule;
    const std::string name = escape_for_terminal(rule.in_block ? rule.block + " / " + rule.key : rule.key);
    if (!change.before)
      out += fmt::format("  + {}  matches {}\n", name, *change.after);
    else if (!change.after)
      out += fmt::format("  - {}  matched {}\n", name, *change.before);
    else
      out += fmt::format("  ~ {}  matches {} -> {}\n", name, *change.before, *change.after);
  }
  return out.empty() ? out : "\nrules\n" + out;
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

// "[2, 16]"; "none" for no call; the first of several shapes with how many there are.
std::string shapes_text(const std::vector<std::vector<int64_t>>& shapes) {
  if (shapes.empty()) return "none";
  return shapes.size() == 1 ? shape_text(shapes[0])
                            : fmt::format("{} and {} more", shape_text(shapes[0]), shapes.size() - 1);
}

std::string calls_text(const CallsDiff& calls) {
  if (calls.known_before != calls.known_after)
    return fmt::format("\ncalls of a step\n  only the {} manifest lists them\n", calls.known_after ? "new" : "old");
  if (calls.changes.empty()) return {};
  std::string out = fmt::format("\ncalls of a step: {} -> {}, {} of inputs on rank 0\n", calls.before, calls.after,
                                arrow(human_bytes(calls.bytes_before), human_bytes(calls.bytes_after)));
  for (const CallChange& c : calls.changes) {
    const char sign = c.before == 0 ? '+' : c.after == 0 ? '-' : '~';
    out += fmt::format("  {} {:<8}  {} over {}  {}\n", sign, c.backward ? "backward" : "forward", to_text(c.kind),
                       escape_for_terminal(c.axis), escape_for_terminal(c.module));
    out += fmt::format("      {} calls, {}, {} {}\n", arrow(fmt::format("{}", c.before), fmt::format("{}", c.after)),
                       arrow(human_bytes(c.bytes_before), human_bytes(c.bytes_after)),
                       arrow(shapes_text(c.shapes_before), shapes_text(c.shapes_after)), escape_for_terminal(c.dtype));
  }
  return out;
}

std::string bytes_text(const RankBytes& before, const RankBytes& after) {
  std::string out;
  const auto row = [&out](std::string_view what, uint64_t a, uint64_t b) {
    if (a == b) return;
    const double percent = 100 * (static_cast<double>(b) - static_cast<double>(a)) / static_cast<double>(a);
    const std::string from = human_bytes(a), to = human_bytes(b);
    if (from == to)
      out += fmt::format("  {:<20}  {} B -> {} B\n", what, a, b);
    else
      out += fmt::format("  {:<20}  {} -> {}{}\n", what, from, to, a == 0 ? "" : fmt::format(" ({:+.1f} %)", percent));
  };
  row("fullest rank", before.max, after.max);
  if (before.min && after.min) row("emptiest rank", *before.min, *after.min);
  row("ideal rank", before.ideal, after.ideal);
  row("whole on every rank", before.replicated, after.replicated);
  row("model", before.total, after.total);
  return out.empty() ? out : "\nbytes\n" + out;
}

// ---- JSON ----

void write_fields(JsonWriter& json, std::string_view key, const std::vector<FieldChange>& fields) {
  write_key(json, key);
  begin_object(json);
  for (const FieldChange& f : fields) {
    write_key(json, f.field);
    begin_object(json);
    for (const auto& [side, text] : {std::pair{"before", &f.before_json}, std::pair{"after", &f.after_json}}) {
      if (text->empty()) continue;
      write_key(json, side);
      write_json(json, *text);
    }
    end_object(json);
  }
  end_object(json);
}

void write_family(JsonWriter& json, const PathFamily& family) {
  begin_object(json);
  write_member(json, "pattern", family.pattern);
  write_member(json, "of", family.of);
  write_key(json, "paths");
  write_array(json, family.paths);
  end_object(json);
}

void write_group(JsonWriter& json, const ChangeGroup& group, std::string_view change) {
  begin_object(json);
  write_member(json, "change", change);
  write_member(json, "count", group.count);
  write_member(json, "example", group.families[0].paths[0]);
  write_fields(json, "fields", group.fields);
  next_line(json, 4);
  write_key(json, "families");
  begin_array(json);
  for (const PathFamily& family : group.families) {
    if (&family != group.families.data()) next_line(json, 6);
    write_family(json, family);
  }
  end_array(json);
  end_object(json);
}

void write_list(JsonWriter& json, const ListDiff& list, std::string_view name) {
  next_line(json, 1);
  write_key(json, name);
  begin_object(json);
  write_member(json, "before", list.before);
  write_member(json, "after", list.after);
  write_member(json, "changed", list.changed_count);
  write_member(json, "added", list.added_count);
  write_member(json, "removed", list.removed_count);
  write_key(json, "groups");
  begin_array(json);
  for (const auto& [groups, change] :
       {std::pair{&list.changed, "changed"}, std::pair{&list.added, "added"}, std::pair{&list.removed, "removed"}}) {
    for (const ChangeGroup& group : *groups) {
      next_line(json, 3);
      write_group(json, group, change);
    }
  }
  end_array(json);
  end_object(json);
}

void write_side(JsonWriter& json, std::string_view key, const std::optional<uint64_t>& number) {
  write_key(json, key);
  if (number)
    write_value(json, *number);
  else
    write_value(json, nullptr);
}

void write_rule_change(JsonWriter& json, const RuleChange& change) {
  begin_object(json);
  if (change.rule->in_block) write_member(json, "block", change.rule->block);
  write_member(json, "key", change.rule->key);
  write_side(json, "before", change.before);
  write_side(json, "after", change.after);
  end_object(json);
}

void write_collective_count(JsonWriter& json, const CollectiveCount& c) {
  begin_object(json);
  write_member(json, "phase", to_text(c.phase));
  write_member(json, "kind", to_text(c.kind));
  write_member(json, "axis", c.axis);
  write_member(json, "before", c.before);
  write_member(json, "after", c.after);
  write_member(json, "bytes_before", c.bytes_before);
  write_member(json, "bytes_after", c.bytes_after);
  end_object(json);
}

void write_call_change(JsonWriter& json, const CallChange& c) {
  begin_object(json);
  write_member(json, "phase", c.backward ? "backward" : "forward");
  write_member(json, "kind", to_text(c.kind));
  write_member(json, "axis", c.axis);
  write_member(json, "module", c.module);
  for (const auto& [side, shapes] :
       {std::pair{"shapes_before", &c.shapes_before}, std::pair{"shapes_after", &c.shapes_after}}) {
    write_key(json, side);
    write_array(json, *shapes, [&json](const std::vector<int64_t>& shape) { write_array(json, shape); });
  }
  write_member(json, "dtype", c.dtype);
  write_member(json, "before", c.before);
  write_member(json, "after", c.after);
  write_member(json, "bytes_before", c.bytes_before);
  write_member(json, "bytes_after", c.bytes_after);
  end_object(json);
}

void write_bytes(JsonWriter& json, std::string_view key, const RankBytes& b) {
  write_key(json, key);
  begin_object(json);
  write_member(json, "ranks", b.ranks);
  write_side(json, "min", b.min);
  write_member(json, "max", b.max);
  write_member(json, "total", b.total);
  write_member(json, "ideal", b.ideal);
  write_member(json, "replicated", b.replicated);
  end_object(json);
}

// One item a line.
template <typename Items, typename Write>
void write_changes(JsonWriter& json, std::string_view key, const Items& items, Write write) {
  next_line(json, 1);
  write_key(json, key);
  write_array(json, items, [&](const auto& item) {
    next_line(json, 2);
    write(json, item);
  });
}

}  // namespace

std::string diff_summary(const ManifestDiff& diff) {
  std::string out = summary_line(diff);
  if (!diff.inputs.empty()) {
    std::vector<std::string> names;
    for (const FieldChange& f : diff.inputs) names.emplace_back(f.field);
    std::string list = join(names, ", ");
    std::replace(list.begin(), list.end(), '_', ' ');
    out += fmt::format("  = note: made from other inputs ({}), which alone is no difference\n", list);
  }
  return out;
}

std::string diff_text(const ManifestDiff& diff) {
  std::string out;
  if (!diff.settings.empty()) out += "\nsettings\n" + fields_text(diff.settings, "  ~ ");
  return out + rules_text(diff.rules) + list_text(diff.parameters, "parameters") + list_text(diff.buffers, "buffers") +
         list_text(diff.modules, "module boundaries") + collectives_text(diff.collectives) + calls_text(diff.calls) +
         bytes_text(diff.bytes_before, diff.bytes_after);
}

bool write_diff_json(const ManifestDiff& diff, const Sink& sink) {
  JsonWriter json{.sink = &sink};
  begin_object(json);
  next_line(json, 1);
  write_member(json, "format", kDiffFormat);
  next_line(json, 1);
  write_member(json, "tool", kToolVersion);
  next_line(json, 1);
  write_member(json, "same", diff.same);
  next_line(json, 1);
  write_fields(json, "inputs", diff.inputs);
  next_line(json, 1);
  write_fields(json, "settings", diff.settings);
  write_changes(json, "rules", diff.rules, write_rule_change);
  write_list(json, diff.parameters, "parameters");
  write_list(json, diff.buffers, "buffers");
  write_list(json, diff.modules, "modules");
  write_changes(json, "collectives", diff.collectives, write_collective_count);
  if (diff.calls.known_before && diff.calls.known_after)
    write_changes(json, "calls", diff.calls.changes, write_call_change);
  next_line(json, 1);
  write_key(json, "bytes");
  begin_object(json);
  write_bytes(json, "before", diff.bytes_before);
  next_line(json, 11);
  write_bytes(json, "after", diff.bytes_after);
  end_object(json);
  next_line(json, 0);
  end_object(json);
  return finish(json);
}

}  // namespace tpplan
