#include "plan/read_spec.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/text.h"

namespace tpplan {
namespace {

// Converts axes separated by `signs` to a comma-separated list; empty if one of them is no axis.
std::string axes_between(const PlanReader& reader, std::string_view text, std::string_view signs) {
  std::string list;
  size_t count = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(signs), text.size());
    const std::string part(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (part.empty()) continue;
    const bool is_axis = find_axis(reader.plan.mesh, part) != kNoAxis;
    if (!is_axis && part != "null") return {};
    list += (list.empty() ? "" : ", ") + (is_axis ? axis_text(part) : part);
    ++count;
  }
  return count > 1 ? list : std::string();
}

// Adds a help to the last diagnostic if the entry is several axes in one word.
void explain_entry(PlanReader& reader, YamlId id) {
  const std::string& text = node_at(reader, id).text;
  std::string meant = axes_between(reader, text, " ");
  if (!meant.empty()) {
    reader.diagnostics.list.back().help = fmt::format("separate the axes with commas: write `{}`", meant);
  } else if (meant = axes_between(reader, text, " ,+*&/"); !meant.empty()) {
    meant = fmt::format("[{}]", meant);
    reader.diagnostics.list.back().help =
        fmt::format("write a list for a dim that is sharded over several axes: `{}`", meant);
  }
  if (!meant.empty()) reader.diagnostics.list.back().edits.clear();
  propose_edit(reader, id, meant);
}

// True for words that mean a replicated dim in other notations.
bool is_word_for_replicated(std::string_view text) {
  static constexpr std::string_view words[] = {"None", "none", "NONE", "nil", "*", "_", "replicate", "replicated"};
  return std::ranges::find(words, text) != std::end(words);
}

bool is_placement(const YamlNode& node) {
  Placement placement;
  return node.kind == YamlKind::Scalar && parse_placement(node.text, placement);
}

}  // namespace

bool read_spec_entry(PlanReader& reader, YamlId id, DimAxes& axes) {
  const YamlNode& node = node_at(reader, id);
  if (node.kind == YamlKind::Null) return true;
  if (node.kind == YamlKind::Scalar && is_word_for_replicated(node.text) &&
      find_axis(reader.plan.mesh, node.text) == kNoAxis) {
    report_error(reader, Code::UnknownLayout, id, fmt::format("`{}` is not an axis of the mesh", node.text),
                 "write `null` for a replicated dim");
    propose_edit(reader, id, "null");
    return false;
  }
  if (is_yaml_number(node)) {
    report_error(reader, Code::UnknownAxis, id,
                 fmt::format("a spec entry is the number {}, not an axis of the mesh", node.text), axes_help(reader));
    return false;
  }
  if (node.kind != YamlKind::Sequence) {
    if (read_axis(reader, id, "a spec entry", axes.emplace_back())) return true;
    if (node.kind == YamlKind::Scalar) explain_entry(reader, id);
    return false;
  }
  bool good = true;
  for (const YamlId item : node.children) {
    const YamlNode& inner = node_at(reader, item);
    if (inner.kind != YamlKind::Scalar || (inner.is_plain && inner.text == "...")) {
      const Code code = inner.kind == YamlKind::Scalar ? Code::UnknownAxis : Code::InvalidPlanValue;
      report_error(reader, code, item, fmt::format("a spec entry contains {}, not an axis", describe(inner)),
                   "write one entry for each dim: null, an axis, or [axes, major to minor]");
      good = false;
    } else if (is_yaml_number(inner)) {
      report_error(reader, Code::UnknownAxis, item,
                   fmt::format("a spec entry contains the number {}, not an axis", inner.text), axes_help(reader));
      good = false;
    } else {
      good = read_axis(reader, item, "an axis inside a spec entry", axes.emplace_back()) && good;
    }
  }
  return good;
}

std::optional<SpecTemplate> read_spec(PlanReader& reader, YamlId id) {
  SpecTemplate spec;
  if (!expect(reader, id, YamlKind::Sequence, "`spec`")) return std::nullopt;
  bool good = true;
  for (const YamlId item : node_at(reader, id).children) {
    const YamlNode& node = node_at(reader, item);
    if (node.kind == YamlKind::Map) {
      report_error(reader, Code::InvalidPlanValue, item, "a spec entry is a mapping, not an axis",
                   "write options of a rule as a mapping, without `- `: `{style: colwise}`");
      return std::nullopt;
    }
    if (node.kind == YamlKind::Scalar && is_style(node.text) && find_axis(reader.plan.mesh, node.text) == kNoAxis) {
      report_error(reader, Code::UnknownAxis, item,
                   fmt::format("`{}` is a style, but a spec has an axis for each dim", node.text),
                   fmt::format("write one style, without brackets: `{}`", node.text));
      return std::nullopt;
    }
    if (is_placement(node) && find_axis(reader.plan.mesh, node.text) == kNoAxis) {
      report_error(reader, Code::UnknownAxis, item,
                   fmt::format("`{}` is a placement, but a spec has an axis for each dim", node.text),
                   "write the axis for a sharded dim, and null for a replicated dim: `[tp, null]`");
      return std::nullopt;
    }
    if (node.kind == YamlKind::Scalar && node.text == "...") {
      if (spec.has_ellipsis) {
        report_error(reader, Code::UnknownLayout, item, "`...` occurs twice in one spec");
        good = false;
      }
      spec.has_ellipsis = true;
      continue;
    }
    good = read_spec_entry(reader, item, (spec.has_ellipsis ? spec.after : spec.before).emplace_back()) && good;
  }
  return good ? std::optional(spec) : std::nullopt;
}

}  // namespace tpplan
