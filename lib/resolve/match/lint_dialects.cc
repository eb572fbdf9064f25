#include "resolve/match/lint_dialects.h"

#include <spdlog/fmt/fmt.h>

#include "base/text.h"
#include "resolve/match/match_plan.h"

namespace tpplan {
namespace {

struct DialectReading {
  std::string name;
  const DialectRow* dialect;
  KerasMatch keras_match = KerasMatch::Fullmatch;
};

std::vector<DialectReading> list_readings(std::span<const DialectRow* const> dialects) {
  std::vector<DialectReading> readings;
  for (const DialectRow* dialect : dialects) {
    readings.push_back({std::string(dialect->name), dialect});
    if (dialect->reads_keras_match)
      readings.push_back({fmt::format("{} search (2023 to 2026)", dialect->name), dialect, KerasMatch::Search});
  }
  return readings;
}

// Returns, by rule, the parameters that it applies to in the dialect `reading`.
std::vector<std::vector<ParamId>> governed_by(const TpPlan& plan, const ModelGraph& graph,
                                              const DialectReading& reading) {
  TpPlan other = plan;
  other.dialect = reading.dialect;
  other.keras_match = reading.keras_match;
  other.fsdp.reset();  // these patterns are the same in every dialect
  other.remat.clear();
  other.local_attributes.clear();
  other.init.clear();
  Diagnostics unheard;  // discarded: errors of another dialect are not errors of this plan
  const MatchTable table = match_plan(other, graph, unheard);
  std::vector<std::vector<ParamId>> params(plan.rules.size());
  for (ParamId id = 0; id < table.params.size(); ++id) {
    if (table.params[id].rule != kNoRule) params[table.params[id].rule].push_back(id);
  }
  return params;
}

}  // namespace

std::vector<const DialectRow*> dialects_with_same_keys(const TpPlan& plan) {
  std::vector<const DialectRow*> with_same_keys;
  for (const DialectRow* dialect : dialect_table()) {
    if (dialect->keys == plan.dialect->keys) with_same_keys.push_back(dialect);
  }
  return with_same_keys;
}

void lint_dialects(const TpPlan& plan, const ModelGraph& graph, std::span<const DialectRow* const> dialects,
                   Diagnostics& diagnostics) {
  std::vector<std::vector<std::vector<ParamId>>> by_reading;
  const std::vector<std::vector<ParamId>> by_plan = governed_by(plan, graph, {"", plan.dialect, plan.keras_match});
  const std::vector<DialectReading> readings = list_readings(dialects);
  for (const DialectReading& reading : readings) by_reading.push_back(governed_by(plan, graph, reading));
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    const PlanRule& rule = plan.rules[id];
    if (rule.style != nullptr && !rule.style->touches_parameters) continue;
    std::vector<std::string> others;
    for (size_t i = 0; i < by_reading.size(); ++i) {
      if (by_reading[i][id] != by_plan[id])
        others.push_back(fmt::format(
            "{}: {}", readings[i].name,
            by_reading[i][id].size() == by_plan[id].size() ? "others" : std::to_string(by_reading[i][id].size())));
    }
    if (others.empty()) continue;
    Diagnostic& d = report_message(diagnostics, Code::DialectDependentKey, rule.key_span,
                                   fmt::format("`{}` selects {} in this dialect, but different ones in other dialects",
                                               rule.key, counted(by_plan[id].size(), "parameter")));
    d.label = fmt::format("{}", fmt::join(others, ", "));
    d.help = "keep `dialect:` in the file, and convert the keys before another tool reads them";
  }
}

}  // namespace tpplan
