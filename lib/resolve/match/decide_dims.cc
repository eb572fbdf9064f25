#include "resolve/match/decide_dims.h"

#include <algorithm>
#include <utility>

namespace tpplan {

std::span<const std::string_view> logical_axes_of(const ModelGraph& graph, const Param& param) {
  if (param.extras == kNone) return {};
  return graph.extras[param.extras].logical_axes;
}

NameRules rules_by_name(const TpPlan& plan) {
  NameRules rules;
  for (RuleId id = 0; id < plan.rules.size(); ++id) {
    if (plan.rules[id].of_dim) rules[plan.rules[id].key].push_back(id);
  }
  return rules;
}

std::vector<RuleId> resolve_dims(const TpPlan& plan, const NameRules& rules, std::span<const std::string_view> names,
                                 std::vector<SkippedRule>* skipped) {
  std::vector<std::pair<RuleId, size_t>> candidates;  // rule, dim of that name
  for (size_t dim = 0; dim < names.size(); ++dim) {
    const auto named = rules.find(names[dim]);
    if (names[dim].empty() || named == rules.end()) continue;
    for (const RuleId rule : named->second) candidates.emplace_back(rule, dim);
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<RuleId> decided(names.size(), kNoRule);
  std::vector<size_t> sharded_by(plan.mesh.axes.size(),
                                 names.size());  // by axis: the dim it shards; names.size(): none
  for (const auto& [rule, dim] : candidates) {
    const DimAxes& axes = plan.rules[rule].spec->before.front();
    const auto taken = std::ranges::find_if(axes, [&](AxisId axis) { return sharded_by[axis] < names.size(); });
    if (decided[dim] != kNoRule || taken != axes.end()) {
      if (skipped != nullptr) skipped->push_back({rule, dim, decided[dim] != kNoRule ? dim : sharded_by[*taken]});
      continue;
    }
    decided[dim] = rule;
    for (const AxisId axis : axes) sharded_by[axis] = dim;
  }
  return decided;
}

}  // namespace tpplan
