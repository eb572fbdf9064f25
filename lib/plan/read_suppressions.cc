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
          return report_unknown_key(reader, key, "a suppression", known);
        // A misspelt key is not reported as missing, too.
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
          report_error(reader, Code::UnknownSetting, value,
                       fmt::format("{} is an error, but only warnings can be suppressed", text),
                       "fix the error, or write `optional: true` for a rule that only other models need");
        else
          report_error(reader, Code::UnknownSetting, value, fmt::format("unknown diagnostic `{}`", text),
                       "write a code that `tpplan rules` lists, such as TP4006");
      },
      kSuppressionForm);
  if (is_map && (!has_code || suppression.reason.empty())) {
    report_error(reader, Code::MissingPlanField, id,
                 fmt::format("a suppression has no `{}`", has_code ? "reason" : "code"), std::string(kSuppressionForm));
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
