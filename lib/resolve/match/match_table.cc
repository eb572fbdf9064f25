#include "resolve/match/match_table.h"

namespace tpplan {

RuleId rule_of_dim(const MatchTable& table, const ParamMatch& match, size_t dim) {
  return match.dims == kNone ? match.rule : table.dim_rules[match.dims + dim];
}

uint64_t match_count(const PlanRule& rule, const RuleMatches& matches) {
  const bool modules = rule.style != nullptr && rule.style->counts_modules;
  return modules ? matches.modules : matches.parameters;
}

}  // namespace tpplan
