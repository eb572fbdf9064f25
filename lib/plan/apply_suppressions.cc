#include "plan/apply_suppressions.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {
namespace {

// Warnings about a rule stand at its key or at its value.
bool is_about_rule(const TpPlan& plan, const Diagnostic& d, const std::string& key) {
  if (d.span.file != plan.file) return false;
  return std::any_of(plan.rules.begin(), plan.rules.end(), [&](const PlanRule& rule) {
    return rule.key == key && (d.span.offset == rule.key_span.offset || d.span.offset == rule.value_span.offset);
  });
}

}  // namespace

// One by one in the plan's order: of two that fit the same warning the second finds nothing, and may be said to be
// idle.
void apply_suppressions(const TpPlan& plan, const std::function<bool(Code)>& is_complete, Diagnostics& diagnostics) {
  for (const Suppression& suppression : plan.suppressions) {
    const size_t removed = std::erase_if(diagnostics.list, [&](const Diagnostic& d) {
      return d.severity == Severity::Warning && d.code == suppression.code &&
             (suppression.rule.empty() || is_about_rule(plan, d, suppression.rule));
    });
    if (removed > 0 || !is_complete(suppression.code)) continue;
    report_message(diagnostics, Code::TP3017, suppression.span,
                   fmt::format("nothing reports {} any more{}", kind_of(suppression.code).name,
                               suppression.rule.empty() ? "" : fmt::format(" about rule `{}`", suppression.rule)),
                   "remove the suppression");
  }
}

}  // namespace tpplan
