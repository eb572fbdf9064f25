// Diagnostics for the errors of check_sharding, at the rule that caused them.
#pragma once

#include <vector>

#include "diagnostics/diagnostics.h"
#include "model/model_graph.h"
#include "plan/tp_plan.h"
#include "sharding/check_sharding.h"

namespace tpplan {

// Returns the sizes of the indivisible blocks of a parameter's dims, from the model file.
[[nodiscard]] std::vector<DimGranularity> granularity_of(const ModelGraph& graph, const Param& param);

// Reports a sharding error of a parameter under a rule. The same error on further parameters of the rule only raises
// its count, and returns nullptr. If `granularity_is_fatal` is false, a split block is a warning, because the framework
// splits it too.
[[nodiscard]] Diagnostic* report_sharding_error(const ShardingError& fault, const TpPlan& plan, const ModelGraph& graph,
                                                ParamId param, RuleId rule, const Sharding& sharding, bool by_module,
                                                bool granularity_is_fatal, Diagnostics& diagnostics);

}  // namespace tpplan
