#include "plan/plan_reader.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"
#include "plan/foreign_words.h"
#include "text/json_writer.h"

namespace tpplan {
namespace {

// True for YAML 1.1 words that some readers parse as booleans, and for plain numbers: names must quote them.
bool is_yaml_word(const YamlNode& node) {
  static constexpr std::string_view words[] = {"true", "false", "yes", "no", "on", "off"};
  if (!node.is_plain) return false;
  std::string lower = node.text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return is_yaml_number(node) || std::find(std::begin(words), std::end(words), lower) != std::end(words);
}

bool is_quoted(const YamlNode& node) { return node.kind == YamlKind::Scalar && !node.is_plain; }

// Returns the help for a value of the wrong kind.
std::string kind_help(const PlanReader& reader, const YamlNode& node, YamlKind wanted) {
  const std::vector<YamlId>& children = node.children;
  const auto is_child = [&](YamlKind kind) {
    return std::ranges::all_of(children, [&](YamlId id) { return node_at(reader, id).kind == kind; });
  };
  if (node.kind == YamlKind::Null) return "write its value after the colon, or remove the key";
  if (wanted == YamlKind::Map && node.kind == YamlKind::Sequence && !children.empty() && is_child(YamlKind::Map))
    return "write one mapping, not a list of them: keys without `- ` before them";
  if (wanted == YamlKind::Map && is_quoted(node) && node.text.find('\n') != std::string::npos)
    return "remove the `|` or `>` after the colon: it turns all lines below into one text";
  if (wanted == YamlKind::Sequence && node.kind == YamlKind::Scalar && !is_yaml_word(node))
    return fmt::format("write a list in brackets: `[{}]`", json_text(node.text));
  if (wanted == YamlKind::Scalar && node.kind == YamlKind::Sequence && children.size() == 1 &&
      is_child(YamlKind::Scalar))
    return fmt::format("write `{}`, without brackets", node_at(reader, children[0]).text);
  return {};
}

}  // namespace

const YamlNode& node_at(const PlanReader& reader, YamlId id) { return reader.tree.nodes[id]; }
Span span_at(const PlanReader& reader, YamlId id) { return span_of(reader.tree.file, node_at(reader, id)); }

Diagnostic& report_error(PlanReader& reader, Code code, YamlId id, std::string message, std::string help) {
  const YamlNode& node = node_at(reader, id);
  if (node.kind == YamlKind::Scalar && node.is_plain && node.text.find(" //") != std::string::npos)
    help = "start the comment with `#`, not with `//`";
  return report_message(reader.diagnostics, code, span_at(reader, id), std::move(message), std::move(help));
}

void report_unknown_key(PlanReader& reader, YamlId key, std::string_view where,
                        std::span<const std::string_view> known) {
  const std::string& text = node_at(reader, key).text;
  const std::string_view help = foreign_word_help(where, text);
  std::string_view nearest = equivalent_word(where, text);
  if (nearest.empty() && help.empty()) nearest = nearest_name(text, known);
  report_error(reader, Code::UnknownPlanKey, key, fmt::format("unknown key `{}` in {}", text, where),
               !help.empty()     ? std::string(help)
               : nearest.empty() ? fmt::format("use one of the keys {}", fmt::join(known, ", "))
                                 : did_you_mean(nearest));
  propose_edit(reader, key, nearest);
}

bool expect(PlanReader& reader, YamlId id, YamlKind kind, std::string_view what, std::string_view help) {
  if (node_at(reader, id).kind == kind) return true;
  static constexpr std::string_view names[] = {"null", "text", "a list", "a mapping"};
  static_assert(std::size(names) == static_cast<size_t>(YamlKind::Map) + 1);
  report_error(reader, Code::InvalidPlanValue, id,
               fmt::format("{} is {}, not {}", what, describe(node_at(reader, id)), names[static_cast<size_t>(kind)]),
               help.empty() ? kind_help(reader, node_at(reader, id), kind) : std::string(help));
  return false;
}

// Accepts more than YAML's numbers, also `1_000`, `0x10` and `1.2.3`, because anything that some YAML reader parses as
// a number must be quoted.
bool is_yaml_number(const YamlNode& node) {
  return node.kind == YamlKind::Scalar && node.is_plain &&
         node.text.find_first_not_of("0123456789.+-_exEX") == std::string::npos &&
         node.text.find_first_of("0123456789") != std::string::npos;
}

bool expect_name(PlanReader& reader, YamlId id, std::string_view what, std::string_view help) {
  if (!expect(reader, id, YamlKind::Scalar, what)) return false;
  if (!is_yaml_word(node_at(reader, id))) return true;
  report_error(reader, Code::InvalidPlanValue, id,
               fmt::format("{} is `{}`, which YAML reads as a boolean or a number", what, node_at(reader, id).text),
               std::string(help));
  return false;
}

bool read_integer(PlanReader& reader, YamlId id, std::string_view what, int64_t minimum, int64_t& value, Code code,
                  int64_t maximum) {
  const YamlNode& node = node_at(reader, id);
  const bool plain = node.kind == YamlKind::Scalar && node.is_plain;
  const bool negative = plain && node.text.starts_with('-');
  const bool good =
      plain && parse_decimal(std::string_view(node.text).substr(negative), value) && !(negative && value == 0);
  if (good && negative) value = -value;
  if (good && value >= minimum && value <= maximum) return true;
  if (plain && is_digits(node.text) && node.text[0] != '0') {
    report_error(reader, code, id, fmt::format("{} is {}, which is more than {}", what, describe(node), maximum));
    return false;
  }
  const bool quoted_number = is_quoted(node) && parse_decimal(node.text, value);
  report_error(reader, code, id, fmt::format("{} is {}, not an integer of at least {}", what, describe(node), minimum),
               quoted_number ? "remove the quotes" : "");
  return false;
}

bool read_number(PlanReader& reader, YamlId id, std::string_view what, double& value) {
  const YamlNode& node = node_at(reader, id);
  if (node.kind == YamlKind::Scalar && node.is_plain && parse_number(node.text, value)) return true;
  report_error(reader, Code::InvalidPlanValue, id,
               fmt::format("{} is {}, not a number that fits a double", what, describe(node)),
               is_quoted(node) && parse_number(node.text, value) ? "remove the quotes"
                                                                 : "write a number such as 0.02, -1 or 1.5e-3");
  return false;
}

bool read_bool(PlanReader& reader, YamlId id, std::string_view what, bool& value) {
  const YamlNode& node = node_at(reader, id);
  const bool is_word = node.kind == YamlKind::Scalar && (node.text == "true" || node.text == "false");
  if (is_word && node.is_plain) {
    value = node.text == "true";
    return true;
  }
  static constexpr std::string_view yes[] = {"yes", "on", "1", "y"}, no[] = {"no", "off", "0", "n"};
  std::string lower = node.text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto is_in = [&lower](const auto& list) {
    return std::find(std::begin(list), std::end(list), lower) != std::end(list);
  };
  const std::string_view meant = lower == "true" || is_in(yes) ? "true" : lower == "false" || is_in(no) ? "false" : "";
  Diagnostic& d =
      report_error(reader, Code::InvalidPlanValue, id, fmt::format("{} is {}, not true or false", what, describe(node)),
                   is_word         ? "remove the quotes"
                   : meant.empty() ? "write `true` or `false`"
                                   : fmt::format("write `{}`", meant));
  if (!meant.empty()) d.edits.push_back({span_at(reader, id), std::string(meant)});
  return false;
}

bool read_choice(PlanReader& reader, YamlId id, std::string_view what, std::span<const std::string_view> names,
                 size_t& choice) {
  if (!expect(reader, id, YamlKind::Scalar, what)) return false;
  const std::string_view text = node_at(reader, id).text;
  const auto found = std::find(names.begin(), names.end(), text);
  choice = static_cast<size_t>(found - names.begin());
  if (found != names.end()) return true;
  std::string_view nearest = equivalent_word(what, text);
  if (nearest.empty()) nearest = nearest_name(text, names);
  const Code code = is_yaml_word(node_at(reader, id)) ? Code::InvalidPlanValue : Code::UnknownSetting;
  report_error(reader, code, id, fmt::format("{} is `{}`, not one of {}", what, text, fmt::join(names, ", ")),
               !nearest.empty() ? did_you_mean(nearest)
               : names.size() == 2
                   ? fmt::format("write `{}` or `{}`", names[0], names[1])
                   : fmt::format("write one of them, or remove the key for the default `{}`", names[0]));
  propose_edit(reader, id, nearest);
  return false;
}

void propose_edit(PlanReader& reader, YamlId id, std::string_view text) {
  if (!text.empty()) reader.diagnostics.list.back().edits.push_back({span_at(reader, id), std::string(text)});
}

std::string did_you_mean(std::string_view text) { return fmt::format("did you mean `{}`?", text); }

bool read_axis(PlanReader& reader, YamlId id, std::string_view what, AxisId& axis) {
  if (!expect_name(reader, id, what)) return false;
  axis = find_axis(reader.plan.mesh, node_at(reader, id).text);
  if (axis != kNoAxis) return true;
  std::vector<std::string_view> names;
  for (const MeshAxis& known : reader.plan.mesh.axes) names.push_back(known.name);
  const std::string_view nearest = nearest_name(node_at(reader, id).text, names);
  report_error(reader, Code::UnknownAxis, id,
               fmt::format("{} `{}` is not an axis of the mesh", what, node_at(reader, id).text),
               nearest.empty() ? axes_help(reader) : fmt::format("did you mean `{}`? {}", nearest, axes_help(reader)));
  propose_edit(reader, id, nearest.empty() ? "" : axis_text(nearest));
  return false;
}

std::string axes_help(const PlanReader& reader) {
  std::vector<std::string> names;
  for (const MeshAxis& axis : reader.plan.mesh.axes) names.push_back(axis.name);
  if (names.empty()) return "the mesh has no axes";
  return fmt::format("the mesh has {} `{}`", names.size() == 1 ? "axis" : "axes", join(names, "`, `"));
}

bool check_key_length(PlanReader& reader, YamlId id) {
  const size_t bytes = node_at(reader, id).text.size();
  if (bytes <= kMaxKeyBytes) return true;
  report_error(reader, Code::InvalidPattern, id, fmt::format("pattern has {} bytes, more than {}", bytes, kMaxKeyBytes),
               "write a shorter pattern, or several: `*` in a glob matches any part of a path");
  return false;
}

void read_patterns(PlanReader& reader, YamlId id, std::string_view what, std::vector<ModulePattern>& patterns) {
  if (!expect(reader, id, YamlKind::Sequence, what)) return;
  for (const YamlId item : node_at(reader, id).children) {
    if (expect(reader, item, YamlKind::Scalar, "a pattern") && check_key_length(reader, item))
      patterns.push_back({node_at(reader, item).text, span_at(reader, item)});
  }
}

std::vector<YamlId> items_of(const PlanReader& reader, YamlId id) {
  return node_at(reader, id).kind == YamlKind::Sequence ? node_at(reader, id).children : std::vector<YamlId>{id};
}

YamlEntry find_entry(const PlanReader& reader, YamlId map, std::string_view key) {
  const std::vector<YamlId>& children = node_at(reader, map).children;
  for (size_t i = 0; i + 1 < children.size(); i += 2) {
    if (node_at(reader, children[i]).text == key) return {children[i], children[i + 1]};
  }
  return {};
}

}  // namespace tpplan
