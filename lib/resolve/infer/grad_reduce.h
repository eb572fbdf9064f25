// The axes over which gradients of parameters are reduced.
#pragma once

#include <vector>

#include "manifest/manifest.h"
#include "plan/tp_plan.h"

namespace tpplan {

// Returns the gradient reductions in mesh order. They use the data axes and the fsdp axis: reduce_scatter if the axis
// shards the parameter, else all_reduce. They also use the axis of styles whose parameters get partial gradients
// (sequence_parallel, replicated_with_grad_allreduce). `runtime` selects the reduction over data axes.
[[nodiscard]] std::vector<GradReduce> grad_reduce_of(const TpPlan& plan, const Sharding& sharding, RuleId rule,
                                                     PlanRuntime runtime);

// Returns the axis over which modules of a rule reduce the gradients of its parameters; kNoAxis if they do not.
[[nodiscard]] AxisId grad_reduce_axis(const PlanRule& rule);

// Returns the reduction of gradients over data axes. tpplan.torch sums them; FSDP and DDP, which wrap the models of
// other runtimes, average them (torch 2.13).
[[nodiscard]] Reduction data_grad_reduction(PlanRuntime runtime);

}  // namespace tpplan
