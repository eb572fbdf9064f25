// What an editor shows of a place in a plan.
#pragma once

#include <string>
#include <string_view>

#include "infer/sharding_table.h"
#include "match/match_plan.h"

namespace tpplan {

// The rule whose key stands at a byte of the plan's file, or kNoRule.
[[nodiscard]] RuleId rule_at(const TpPlan& plan, size_t offset);

// What a rule decides over, as Markdown: parameters that are alike on one line, with their shapes, whole and on a rank.
// Without `shardings` (a plan that was not inferred) how many.
[[nodiscard]] std::string rule_hover(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                                     const ShardingTable* shardings, RuleId rule);

// The letters, digits and underscores around a byte.
[[nodiscard]] std::string_view word_at(std::string_view text, size_t offset);

}  // namespace tpplan
