// Which mesh axes a plan has work for.
#pragma once

#include <vector>

#include "infer/sharding_table.h"
#include "match/match_plan.h"
#include "plan/tp_plan.h"

namespace tpplan {

// By axis: it cuts a parameter, a boundary acts over it, or every rank has data of its own along it.
[[nodiscard]] std::vector<bool> used_axes(const TpPlan& plan, const MatchTable& matches, const ShardingTable& table);

}  // namespace tpplan
