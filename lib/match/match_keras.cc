// The keras dialect: keras/src/distribution/distribution_lib.py (LayoutMap) of Keras 3.15, with both separators.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <unordered_map>

#include "match/dialects.h"
#include "match/pattern.h"

namespace tpplan {
namespace {

std::string dotted(std::string_view text) {
  std::string out(text);
  std::replace(out.begin(), out.end(), '/', '.');
  return out;
}

PatternAnchor anchor_of(KerasMatch match) {
  return match == KerasMatch::Fullmatch ? PatternAnchor::Whole : match == KerasMatch::Match ? PatternAnchor::Start : PatternAnchor::Anywhere;
}

struct ScopeKeys {
  std::vector<RuleId> rules;
  std::unordered_map<std::string_view, RuleId> exact;
  PatternSetPtr as_written;  // against the path as it is
  PatternSetPtr in_dots;     // against the path with dots
};

ScopeKeys make_keys(const TpPlan& plan, const RuleScope& scope, Diagnostics& diagnostics) {
  ScopeKeys keys{.rules = scope.rules, .exact = {}, .as_written = {}, .in_dots = {}};
  std::vector<std::string> written, converted, faults;
  for (const RuleId id : scope.rules) {
    keys.exact.emplace(plan.rules[id].key, id);
    written.push_back(plan.rules[id].key);
    converted.push_back(dotted(plan.rules[id].key));
  }
  keys.as_written = compile_patterns(written, anchor_of(plan.keras_match), &faults);
  keys.in_dots = compile_patterns(converted, anchor_of(plan.keras_match), nullptr);
  for (size_t i = 0; i < faults.size(); ++i) {
    if (faults[i].empty()) continue;
    report_message(diagnostics, Code::TP3012, plan.rules[scope.rules[i]].key_span, fmt::format("key is not a regular expression: {}", faults[i]),
                   "keys are matched by RE2: Python's lookaround and backreferences are not there");
  }
  return keys;
}

// The rules of one kind (over variables, or over module outputs) that Keras' look-up finds for a path.
std::vector<RuleId> look_up(const ScopeKeys& keys, const TpPlan& plan, std::string_view path, bool over_variables) {
  const auto fits = [&](RuleId id) { return (plan.rules[id].style == nullptr || plan.rules[id].style->touches_parameters) == over_variables; };
  const std::string in_dots = dotted(path);
  for (const std::string_view form : {path, std::string_view(in_dots)}) {
    const auto exact = keys.exact.find(form);
    if (exact != keys.exact.end() && fits(exact->second)) return {exact->second};
  }
  std::vector<int> written, converted;
  find_matches(*keys.as_written, path, written);
  find_matches(*keys.in_dots, in_dots, converted);
  written.insert(written.end(), converted.begin(), converted.end());
  std::sort(written.begin(), written.end());
  written.erase(std::unique(written.begin(), written.end()), written.end());
  std::vector<RuleId> found;
  for (const int i : written) {
    if (fits(keys.rules[static_cast<size_t>(i)])) found.push_back(keys.rules[static_cast<size_t>(i)]);
  }
  return found;
}

void report_ambiguous(const TpPlan& plan, const std::vector<RuleId>& rules, std::string_view path, Diagnostics& diagnostics) {
  const PlanRule& second = plan.rules[rules[1]];
  Diagnostic* d = report(diagnostics, Code::TP4003, second.key_span, fmt::format("{}/{}", rules[0], rules[1]));
  if (d == nullptr) return;
  std::vector<std::string> names;
  for (const RuleId id : rules) names.push_back("`" + plan.rules[id].key + "`");
  d->message = fmt::format("`{}` is matched by {} keys: {}", path, rules.size(), fmt::join(names, ", "));
  d->counted = "parameter";
  d->label = "Keras refuses a path that two keys match";
  d->notes.push_back({fmt::format("`{}` also matches", plan.rules[rules[0]].key), plan.rules[rules[0]].key_span});
  d->help = "make the keys exclude each other, or write the exact path: it wins over regular expressions";
}

}  // namespace

void match_keras(const TpPlan& plan, const ModelGraph& graph, MatchTable& table, Diagnostics& diagnostics) {
  const RuleScopes scopes = rule_scopes(plan, graph, diagnostics);
  std::vector<ScopeKeys> scope_keys(scopes.list.size());
  for (size_t i = 0; i < scope_keys.size(); ++i) {
    if (!scopes.list[i].rules.empty()) scope_keys[i] = make_keys(plan, scopes.list[i], diagnostics);
  }
  const bool over_modules = std::any_of(plan.rules.begin(), plan.rules.end(), [](const PlanRule& r) { return r.style != nullptr && !r.style->touches_parameters; });
  std::vector<EnclosingScope> enclosing;
  std::string path;
  for (ModuleId id = 0; id < graph.modules.size(); ++id) {
    const Module& module = graph.modules[id];
    enclosing_scopes(scopes, id, enclosing);
    for (const EnclosingScope at : enclosing) {
      const ScopeKeys& keys = scope_keys[at.scope];
      if (over_modules) {
        for (const RuleId rule : look_up(keys, plan, relative_path(graph, at, module.path), false)) {
          ++table.rules[rule].modules;
          table.boundaries.push_back({id, rule});
        }
      }
      for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
        assign_path(path, graph, graph.params[param]);
        std::vector<RuleId> rules = look_up(keys, plan, relative_path(graph, at, path), true);
        for (const RuleId rule : rules) ++table.rules[rule].parameters;
        if (table.params[param].rule != kNoRule && !rules.empty()) rules.insert(rules.begin(), table.params[param].rule);
        if (rules.size() > 1) report_ambiguous(plan, rules, path, diagnostics);
        if (rules.empty() || table.params[param].rule != kNoRule) continue;
        table.params[param] = {.rule = rules[0], .by_module = false};
        ++table.rules[rules[0]].governed;
      }
    }
  }
}

}  // namespace tpplan
