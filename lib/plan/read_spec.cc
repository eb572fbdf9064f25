#include "plan/read_spec.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"

namespace tpplan {
namespace {

// Completes the last finding where the entry is two axes without the comma between them.
void explain_entry(PlanReader& reader, YamlId id) {
  const std::string& text = node_at(reader, id).text;
  if (text.find(' ') == std::string::npos) return;
  std::string commas;
  for (const std::string_view part : split(text, ' ')) {
    if (!part.empty()) commas += (commas.empty() ? "" : ", ") + std::string(part);
  }
  reader.diagnostics.list.back().help = fmt::format("no comma stands between them: write `{}`", commas);
  propose(reader, id, commas);
}

bool is_placement(const YamlNode& node) {
  Placement placement;
  return node.kind == YamlKind::Scalar && parse_placement(node.text, placement);
}

}  // namespace

bool read_spec_entry(PlanReader& reader, YamlId id, DimAxes& axes) {
  const YamlNode& node = node_at(reader, id);
  if (node.kind == YamlKind::Null) return true;
  if (node.kind == YamlKind::Scalar && node.text == "None" && find_axis(reader.plan.mesh, "None") == kNoAxis) {
    fault(reader, Code::TP3007, id, "`None` is not an axis of the mesh", "a whole dim is written `null`");
    return false;
  }
  if (is_yaml_number(node)) {
    fault(reader, Code::TP3006, id, fmt::format("a spec entry is the number {}, not an axis of the mesh", node.text),
          axes_help(reader));
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
      const Code code = inner.kind == YamlKind::Scalar ? Code::TP3006 : Code::TP3003;
      fault(reader, code, item, fmt::format("inside a spec entry stands {}, not an axis", describe(inner)),
            "one entry a dim: null, an axis, or [axes, major to minor]");
      good = false;
    } else if (is_yaml_number(inner)) {
      fault(reader, Code::TP3006, item,
            fmt::format("inside a spec entry stands the number {}, not an axis", inner.text), axes_help(reader));
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
    if (is_placement(node) && find_axis(reader.plan.mesh, node.text) == kNoAxis) {
      fault(reader, Code::TP3006, item,
            fmt::format("`{}` is a placement, and a spec has an axis for each dim", node.text),
            "write the axis where a dim is cut, null where it is not: `[tp, null]`");
      return std::nullopt;
    }
    if (node.kind == YamlKind::Scalar && node.text == "...") {
      if (spec.has_ellipsis) {
        fault(reader, Code::TP3007, item, "`...` stands twice in one spec");
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
