// Check for dead and shadowed rules.
#pragma once

#include "resolve/match/match_table.h"

namespace tpplan {

// Reports rules that match nothing (TP4001 with a suggestion, or TP4002, by the dialect), and rules that more exact
// keys shadow for all their parameters (TP4005).
void report_unused_rules(const TpPlan& plan, const ModelGraph& graph, const MatchTable& table,
                         Diagnostics& diagnostics);

}  // namespace tpplan
