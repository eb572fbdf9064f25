// Hover texts of an editor for a position in a plan.
#pragma once

#include <string>
#include <string_view>

#include "resolve/infer/sharding_table.h"
#include "resolve/match/match_table.h"

namespace tpplan {

// Returns the rule whose key is at a byte of the plan's file, or kNoRule.
[[nodiscard]] RuleId rule_at(const TpPlan& plan, size_t offset);

// Returns a Markdown description of a rule: its style, its number of parameters, and the parameters with their global
// and local shapes. Parameters with equal shapes share a line. Local shapes need `shardings`, which may be nullptr.
[[nodiscard]] std::string rule_hover(const TpPlan& plan, const ModelGraph& graph, const MatchTable& matches,
                                     const ShardingTable* shardings, RuleId rule);

// Returns the word of letters, digits and underscores around a byte.
[[nodiscard]] std::string_view word_at(std::string_view text, size_t offset);

}  // namespace tpplan
