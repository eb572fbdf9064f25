#include "resolve/match/match_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "resolve/match/match_patterns.h"
#include "resolve/match/report_unused_rules.h"

namespace tpplan {

MatchTable match_plan(const TpPlan& plan, const ModelGraph& graph, Diagnostics& diagnostics, KeyHits* hits) {
  MatchTable table;
  table.params.resize(graph.params.size());
  table.rules.resize(plan.rules.size());
  plan.dialect->match(plan, graph, table, diagnostics, hits);
  // The torch dialect finds boundaries rule by rule, others module by module; later phases need one order.
  std::stable_sort(table.boundaries.begin(), table.boundaries.end(),
                   [](const BoundaryMatch& a, const BoundaryMatch& b) {
                     return std::pair(a.module, a.rule) < std::pair(b.module, b.rule);
                   });
  // A reported error may be why a key matches nothing: an invalid pattern, a dead block or a model without dim names.
  // Reporting the key as dead would duplicate that diagnostic.
  const bool is_reported = std::any_of(diagnostics.list.begin(), diagnostics.list.end(),
                                       [](const Diagnostic& d) { return kind_of(d.code).unmatches_rules; });
  if (!is_reported) report_unused_rules(plan, graph, table, diagnostics);
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
                   : fmt::format("{} {}", plan.rules[rule].key, rule_value_text(plan.rules[rule], plan.mesh));
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
