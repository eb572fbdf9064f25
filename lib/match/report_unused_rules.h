// Rules without work.
#pragma once

#include "match/match_plan.h"

namespace tpplan {

// Rules that match nothing (TP4001 with what the key may have meant, or TP4002, by the dialect), and rules whose every
// parameter more exact keys decide over (TP4005).
void report_unused_rules(const TpPlan& plan, const ModelGraph& graph, const MatchTable& table,
                         Diagnostics& diagnostics);

}  // namespace tpplan
