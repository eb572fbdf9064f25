#include "match/match_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "match/match_patterns.h"
#include "match/report_unused_rules.h"

namespace tpplan {

RuleId rule_of_dim(const MatchTable& table, const ParamMatch& match, size_t dim) {
  return match.dims == kNone ? match.rule : table.dim_rules[match.dims + dim];
}

uint64_t match_count(const PlanRule& rule, const RuleMatches& matches) {
  const bool modules = rule.style != nullptr && rule.style->counts_modules;
  return modules ? matches.modules : matches.parameters;
}

MatchTable match_plan(const TpPlan& plan, const ModelGraph& graph, Diagnostics& diagnostics, KeyHits* hits) {
  MatchTable table;
  table.params.resize(graph.params.size());
  table.rules.resize(plan.rules.size());
  plan.dialect->match(plan, graph, table, diagnostics, hits);
  // Dialects find boundaries module by module, or rule by rule as torch does; who reads the table finds one order.
  std::stable_sort(table.boundaries.begin(), table.boundaries.end(),
                   [](const BoundaryMatch& a, const BoundaryMatch& b) {
                     return std::pair(a.module, a.rule) < std::pair(b.module, b.rule);
                   });
  // A key that cannot be compiled matches nothing, nor does one in a block that is nowhere, or of a dim without a name:
  // to call it dead as well would be a second finding of one cause.
  const bool is_said = std::any_of(diagnostics.list.begin(), diagnostics.list.end(), [](const Diagnostic& d) {
    return d.code == Code::TP3012 || d.code == Code::TP4009 || d.code == Code::TP4012;
  });
  if (!is_said) report_unused_rules(plan, graph, table, diagnostics);
  table.patterns = match_patterns(plan, graph, diagnostics);
  return table;
}

std::string dump(const MatchTable& table, const TpPlan& plan, const ModelGraph& graph) {
  std::string out;
  for (ParamId id = 0; id < table.params.size(); ++id) {
    const ParamMatch& match = table.params[id];
    std::string rules = match.rule == kNoRule ? "-" : plan.rules[match.rule].key;
    for (size_t dim = 0; match.dims != kNone && dim < graph.params[id].ndim; ++dim) {
      const RuleId rule = rule_of_dim(table, match, dim);
      if (dim == 0) rules.clear();
      rules += dim == 0 ? "" : ", ";
      rules += rule == kNoRule
                   ? "-"
                   : fmt::format("{} {}", plan.rules[rule].key, treatment_text(plan.rules[rule], plan.mesh));
    }
    out += fmt::format("{}: {}\n", path_of(graph, graph.params[id]), rules);
  }
  for (const BoundaryMatch& match : table.boundaries) {
    out += fmt::format("boundary {}: {}\n", graph.modules[match.module].path, plan.rules[match.rule].key);
  }
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    out += fmt::format("rule {}: {} matched, {} governed\n", plan.rules[id].key,
                       match_count(plan.rules[id], table.rules[id]), table.rules[id].governed);
  }
  out += dump(table.patterns, plan, graph);
  return out;
}

}  // namespace tpplan
