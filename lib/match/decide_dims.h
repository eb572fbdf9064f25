// Rules over the names that a model gives its dims: which of them decides each dim of an array.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"
#include "match/match_plan.h"

namespace tpplan {

// What the model calls the dims of a parameter, an empty name where a dim has none; empty where it does not say.
[[nodiscard]] std::span<const std::string_view> logical_axes_of(const ModelGraph& graph, const Param& param);

// The rules of each name, in order.
using NameRules = TextMap<std::string_view, std::vector<RuleId>>;
[[nodiscard]] NameRules rules_by_name(const TpPlan& plan);

// A rule whose name a dim has, and which does not decide over it.
struct SkippedRule {
  RuleId rule = 0;
  size_t dim = 0;
  size_t taken_by = 0;  // the dim that one of its axes cuts already; `dim` itself: an earlier rule decides over it
};

// One rule a dim, kNoRule where none decides: in the order of the plan the first of its name whose axes cut no other
// dim of the array yet. A rule without axes decides that the dim stays whole. `skipped` gets the others of these names.
// @pre no name stands twice
[[nodiscard]] std::vector<RuleId> decide_dims(const TpPlan& plan, const NameRules& rules,
                                              std::span<const std::string_view> names,
                                              std::vector<SkippedRule>* skipped = nullptr);

}  // namespace tpplan
