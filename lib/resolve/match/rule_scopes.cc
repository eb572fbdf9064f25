#include "resolve/match/rule_scopes.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "resolve/match/nearest_path.h"
#include "resolve/match/select_modules.h"

namespace tpplan {

RuleScopes rule_scopes(const TpPlan& plan, const ModelGraph& graph, Diagnostics& diagnostics) {
  RuleScopes scopes;
  scopes.list.resize(1 + plan.blocks.size());
  for (RuleId id = 0; id < plan.rules.size(); ++id)
    scopes.list[plan.rules[id].block == kNoRule ? 0 : 1 + plan.rules[id].block].rules.push_back(id);
  if (plan.blocks.empty()) return scopes;
  scopes.begins_at.resize(graph.modules.size());
  std::vector<std::vector<ModuleId>> matches = outermost_matches(graph, plan.blocks);
  PathHints hints{.graph = graph};
  for (size_t block = 0; block < plan.blocks.size(); ++block) {
    RuleScope& scope = scopes.list[1 + block];
    scope.modules = std::move(matches[block]);
    if (scope.modules.empty()) report_dead_pattern(hints, plan.blocks[block], "block", diagnostics);
    if (scope.rules.empty()) continue;
    for (const ModuleId id : scope.modules) scopes.begins_at[id].push_back(static_cast<uint32_t>(1 + block));
  }
  return scopes;
}

void enclosing_scopes(const ModelGraph& graph, const RuleScopes& scopes, ModuleId module,
                      std::vector<EnclosingScope>& enclosing) {
  enclosing.clear();
  if (!scopes.list[0].rules.empty()) enclosing.push_back({});
  if (scopes.begins_at.empty()) return;
  const size_t blocks = enclosing.size();
  size_t bases = 0;
  for (ModuleId at = module; at != kNone; at = parent_of(graph, at)) {
    bases += !scopes.begins_at[at].empty();
    for (const uint32_t scope : scopes.begins_at[at]) enclosing.push_back({scope, at});
  }
  if (bases < 2) return;  // the scopes of a single module are already in order
  std::sort(enclosing.begin() + static_cast<std::ptrdiff_t>(blocks), enclosing.end(),
            [](const EnclosingScope& a, const EnclosingScope& b) { return a.scope < b.scope; });
}

std::string_view relative_path(const ModelGraph& graph, EnclosingScope scope, std::string_view path) {
  const size_t prefix = scope.base == kNone ? 0 : graph.modules[scope.base].path.size();
  return path.substr(prefix == 0 ? 0 : std::min(prefix + 1, path.size()));
}

void report_equal_rules(const TpPlan& plan, RuleId first, RuleId second, std::string_view path, bool agree,
                        Diagnostics& diagnostics, uint64_t times) {
  const PlanRule &a = plan.rules[first], &b = plan.rules[second];
  Diagnostic* d = report(diagnostics, agree ? Code::RedundantRule : Code::ConflictingRules, b.key_span,
                         fmt::format("{}/{}", first, second), times);
  if (d == nullptr) return;
  d->parameter = path;
  d->counted = "parameter";
  d->message = agree ? fmt::format("rule `{}` repeats rule `{}` for `{}`", b.key, a.key, path)
                     : fmt::format("rules `{}` and `{}` conflict for `{}`", a.key, b.key, path);
  d->label = agree ? "same as the other rule"
                   : fmt::format("{} here, {} in the other rule", rule_value_text(b, plan.mesh),
                                 rule_value_text(a, plan.mesh));
  d->notes.push_back({fmt::format("`{}` also matches", a.key), a.key_span});
  d->help = agree ? "remove one of the two"
                  : "make the keys mutually exclusive, or write an exact path, which takes precedence over a pattern";
}

}  // namespace tpplan
