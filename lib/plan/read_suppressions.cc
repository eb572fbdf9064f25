#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "plan/plan_sections.h"

namespace tpplan {
namespace {

constexpr std::string_view kSuppressionForm = "{code: TP4006, reason: \"why this is meant\"}";

void read_suppression(PlanReader& reader, YamlId id) {
  static constexpr std::string_view known[] = {"code", "reason", "rule"};
  Suppression suppression;
  suppression.span = span_at(reader, id);
  bool has_code = false;
  const bool is_map = for_each_entry(
      reader, id, "a suppression",
      [&](YamlId key, YamlId value) {
        const std::string& name = node_at(reader, key).text;
        if (std::find(std::begin(known), std::end(known), name) == std::end(known))
          return unknown_key(reader, key, "a suppression", known);
        // What is there and wrong is not also missing.
        has_code = has_code || name == "code";
        if (name == "reason") suppression.reason = " ";
        if (!expect(reader, value, YamlKind::Scalar, fmt::format("`{}`", name))) return;
        const std::string& text = node_at(reader, value).text;
        if (name == "reason") suppression.reason = text;
        if (name == "rule") suppression.rule = text;
        if (name != "code") return;
        suppression.span = span_at(reader, value);
        const DiagnosticKind* kind = find_kind(text);
        if (kind != nullptr && kind->severity == Severity::Warning)
          suppression.code = kind->code;
        else if (kind != nullptr)
          fault(reader, Code::TP3013, value, fmt::format("{} is an error, and errors are not suppressed", text),
                "mend what it says; a rule that other models need may be `optional: true`");
        else
          fault(reader, Code::TP3013, value, fmt::format("there is no diagnostic `{}`", text),
                "`tpplan rules` lists the codes, such as TP4006");
      },
      kSuppressionForm);
  if (is_map && (!has_code || suppression.reason.empty())) {
    fault(reader, Code::TP3002, id, fmt::format("a suppression has no `{}`", has_code ? "reason" : "code"),
          std::string(kSuppressionForm));
  }
  reader.plan.suppressions.push_back(std::move(suppression));
}

}  // namespace

void read_suppressions(PlanReader& reader, YamlId id) {
  if (!expect(reader, id, YamlKind::Sequence, "`suppress`",
              fmt::format("write a list: `suppress: [{}]`", kSuppressionForm)))
    return;
  for (const YamlId item : node_at(reader, id).children) read_suppression(reader, item);
}

}  // namespace tpplan
