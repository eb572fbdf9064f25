// Faults that check_sharding finds, as diagnostics at the rule that caused them.
#pragma once

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "sharding/check_sharding.h"

namespace tpplan {

// Reports one fault of a parameter under a rule; the same fault of the same rule on further parameters is counted.
// `granularity_is_fatal` false: a cut granule is a warning, because the plan's framework cuts there too.
void report_sharding_fault(const ShardingFault& fault, const TpPlan& plan, const ModelGraph& graph, ParamId param,
                           RuleId rule, const Sharding& sharding, bool by_module, bool granularity_is_fatal,
                           Diagnostics& diagnostics);

}  // namespace tpplan
