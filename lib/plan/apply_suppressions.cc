#include "plan/apply_suppressions.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace tpplan {
namespace {

// True if the span of a warning is the key or value of a rule with this key.
bool is_about_rule(const TpPlan& plan, const Diagnostic& d, const std::string& key) {
  if (d.span.file != plan.file) return false;
  return std::any_of(plan.rules.begin(), plan.rules.end(), [&](const PlanRule& rule) {
    return rule.key == key && (d.span.offset == rule.key_span.offset || d.span.offset == rule.value_span.offset);
  });
}

}  // namespace

// Applies suppressions in file order: if two match the same warning, the second removes nothing and can be reported.
void apply_suppressions(const TpPlan& plan, const std::function<bool(Code)>& is_complete, Diagnostics& diagnostics) {
  for (const Suppression& suppression : plan.suppressions) {
    const size_t removed = std::erase_if(diagnostics.list, [&](const Diagnostic& d) {
      return d.severity == Severity::Warning && d.code == suppression.code &&
             (suppression.rule.empty() || is_about_rule(plan, d, suppression.rule));
    });
    if (removed > 0 || !is_complete(suppression.code)) continue;
    report_message(diagnostics, Code::UnusedSuppression, suppression.span,
                   fmt::format("the suppressed warning {} no longer occurs{}", kind_of(suppression.code).id,
                               suppression.rule.empty() ? "" : fmt::format(" for rule `{}`", suppression.rule)),
                   "remove the suppression");
  }
}

}  // namespace tpplan
