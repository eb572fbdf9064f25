// The help for code that views a shard with its global number of heads: `local_attributes`.
#pragma once

#include "judge/judge.h"

namespace tpplan {

// Adds to the help of a TP5103 that `local_attributes` with the head counts of its attention module avoids it, if a
// check of the changed plan gets past this diagnostic. If the plan lists attributes of the module, the help says that
// the list is incomplete.
void add_local_heads_help(Checker& checker, const TpPlan& plan, const MatchTable& matches, const WalkOptions& walk,
                          Diagnostic& finding);

}  // namespace tpplan
