#include "suggest/text_trial.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <set>

#include "plan/apply_suppressions.h"

namespace tpplan {
namespace {

size_t errors_of(const TextTrial& trial) {
  return static_cast<size_t>(std::ranges::count_if(trial.findings, &TrialDiagnostic::is_error));
}

uint64_t count_of(const TextTrial& trial, Code code) {
  uint64_t count = 0;
  for (const TrialDiagnostic& found : trial.findings) count += found.code == code ? found.count : 0;
  return count;
}

bool has_boundary(const MatchTable& matches, ModuleId module) {
  return std::ranges::find(matches.boundaries, module, &BoundaryMatch::module) != matches.boundaries.end();
}

}  // namespace

TextTrial check_plan_text(Checker& checker, const SourceFile& file, const MeshSizes& sizes, const WalkOptions& walk) {
  TextTrial trial;
  Diagnostics diagnostics;
  trial.plan = read_plan(file, sizes, diagnostics);
  trial.is_read = !has_errors(diagnostics);
  if (!trial.is_read) return trial;
  CheckResult j = check_plan(checker, trial.plan, diagnostics, Phase::Operations, walk);
  apply_suppressions(
      trial.plan, [](Code) { return false; }, diagnostics);
  trial.matches = std::move(j.matches);
  trial.reached = j.reached;
  for (const Diagnostic& d : diagnostics.list) {
    const bool is_error = d.severity == Severity::Error;
    ++(is_error ? trial.counts.errors : trial.counts.warnings);
    if (!kind_of(d.code).is_coverage)
      trial.findings.push_back({fmt::format("{} ({})", d.message, kind_of(d.code).id), is_error, d.code, d.count});
  }
  return trial;
}

bool is_better(const TextTrial& before, const TextTrial& after) {
  return std::pair(errors_of(after), after.findings.size()) < std::pair(errors_of(before), before.findings.size());
}

std::string first_new_diagnostic(const TextTrial& before, const TextTrial& after) {
  if (!after.is_read) return "the plan has no place for it";
  const bool was_wrong = errors_of(before) > 0;
  for (const TrialDiagnostic& found : after.findings) {
    const bool is_known =
        std::ranges::any_of(before.findings, [&](const TrialDiagnostic& f) { return f.text == found.text; }) ||
        count_of(after, found.code) < count_of(before, found.code);
    if (!is_known && (found.is_error || !was_wrong)) return found.text;
  }
  return {};
}

RuleId rule_of(const ModelGraph& graph, const MatchTable& matches, const DraftLayer& layer, ModuleId id) {
  const Module& module = graph.modules[id];
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    const bool is_param_of_layer = layer.param.empty() || graph.params[param].name == layer.param;
    if (is_param_of_layer && matches.params[param].rule != kNoRule) return matches.params[param].rule;
  }
  return kNoRule;
}

bool is_covered(const ModelGraph& graph, const MatchTable& matches, const DraftLayer& layer, ModuleId id) {
  if (layer.role == DraftRole::ExpertsModule) return has_boundary(matches, id);
  return rule_of(graph, matches, layer, id) != kNoRule;
}

std::vector<ModuleId> uncovered_modules(const ModelGraph& graph, const MatchTable& matches, const DraftLayer& layer) {
  std::vector<ModuleId> modules;
  for (const ModuleId id : layer.modules) {
    if (!is_covered(graph, matches, layer, id)) modules.push_back(id);
  }
  return modules;
}

RuleBlockAndKey name_of(const TpPlan& plan, RuleId id) {
  const PlanRule& rule = plan.rules[id];
  return {rule.block == kNoRule ? std::string_view{} : std::string_view(plan.blocks[rule.block].text), rule.key};
}

std::vector<bool> rules_in_both(const TpPlan& plan, const TpPlan& other) {
  std::set<RuleBlockAndKey> names;
  for (RuleId id = 0; id < other.rules.size(); ++id) names.insert(name_of(other, id));
  std::vector<bool> known;
  for (RuleId id = 0; id < plan.rules.size(); ++id) known.push_back(names.contains(name_of(plan, id)));
  return known;
}

bool preserves_rules(const TextTrial& before, const TextTrial& after) {
  for (ParamId id = 0; id < before.matches.params.size(); ++id) {
    const RuleId was = before.matches.params[id].rule, is = after.matches.params[id].rule;
    if (was != kNoRule && (is == kNoRule || name_of(before.plan, was) != name_of(after.plan, is))) return false;
  }
  return after.matches.boundaries.size() >= before.matches.boundaries.size();
}

}  // namespace tpplan
