// Over which axes gradients of parameters are summed.
#pragma once

#include <vector>

#include "manifest/manifest.h"
#include "plan/tp_plan.h"

namespace tpplan {

// The data axes and the fsdp axis (reduce_scatter where they cut the parameter, else all_reduce), and the style's axis
// where each rank sees a part of the values (sequence_parallel, replicated_with_grad_allreduce). In mesh order.
// `runtime` says who sums over data axes.
[[nodiscard]] std::vector<GradReduce> grad_reduce_of(const TpPlan& plan, const Sharding& sharding, RuleId rule,
                                                     PlanRuntime runtime);

// The axis over which the modules of a rule sum the gradients of its parameters; kNoAxis where they sum none.
[[nodiscard]] AxisId summed_axis(const PlanRule& rule);

// What becomes of gradients over data axes: tpplan.torch adds them up; FSDP and DDP, which wrap the models of the
// others, divide by the number of ranks as well (torch 2.13).
[[nodiscard]] Reduction data_gradients(PlanRuntime runtime);

}  // namespace tpplan
