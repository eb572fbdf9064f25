// Rules keyed by dim names of the model: the rule that applies to each dim of an array.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/keyed_hash.h"
#include "resolve/match/match_table.h"

namespace tpplan {

// Returns the model's dim names of a parameter, "" for an unnamed dim; empty if the model file has none.
[[nodiscard]] std::span<const std::string_view> logical_axes_of(const ModelGraph& graph, const Param& param);

// Rules by dim name, in plan order.
using NameRules = TextMap<std::string_view, std::vector<RuleId>>;
[[nodiscard]] NameRules rules_by_name(const TpPlan& plan);

// A rule with the name of a dim that does not apply to it.
struct SkippedRule {
  RuleId rule = 0;
  size_t dim = 0;
  size_t taken_by = 0;  // the dim that one of its axes shards already; `dim` itself: an earlier rule applies to it
};

// Returns the rule of each dim, or kNoRule. It is the first rule of the dim's name, in plan order, whose axes shard no
// other dim of the array yet. A rule without axes makes the dim replicated. Appends the other rules of these names to
// `skipped`.
// @pre names are unique
[[nodiscard]] std::vector<RuleId> resolve_dims(const TpPlan& plan, const NameRules& rules,
                                               std::span<const std::string_view> names,
                                               std::vector<SkippedRule>* skipped = nullptr);

}  // namespace tpplan
