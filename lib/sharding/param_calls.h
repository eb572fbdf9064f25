// The calls that a parameter's steps are in a run of tpplan.torch, which makes them wherever a module shows its own
// parameters.
#pragma once

#include <span>
#include <vector>

#include "sharding/collective_call.h"
#include "sharding/dtype.h"
#include "sharding/steps.h"

namespace tpplan {

// `forward`: before a module computes. `backward`: once the gradient of what it was shown is there.
struct ParamCalls {
  std::vector<CollectiveCall> forward, backward;
};

// Calls of rank 0, without their module. A gather hands over bytes, and what is scattered has its dim in front, padded
// to pieces of equal size (tools/python/tpplan/torch/communication.py); over one rank there is nothing to call.
// @pre `steps` are param_steps of the same shape, sharding, reductions and mesh.
[[nodiscard]] ParamCalls param_calls(std::span<const int64_t> shape, DType dtype, const Sharding& sharding,
                                     std::span<const GradReduce> reductions, std::span<const ParamStep> steps,
                                     const Mesh& mesh);

}  // namespace tpplan
