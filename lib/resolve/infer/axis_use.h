// The mesh axes that a plan uses.
#pragma once

#include <vector>

#include "plan/tp_plan.h"
#include "resolve/infer/sharding_table.h"
#include "resolve/match/match_table.h"

namespace tpplan {

// Returns, by axis, whether it shards a parameter, a module boundary uses it, or it is a data axis.
[[nodiscard]] std::vector<bool> used_axes(const TpPlan& plan, const MatchTable& matches, const ShardingTable& table);

}  // namespace tpplan
