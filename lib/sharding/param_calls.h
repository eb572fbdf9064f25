// The collective calls with which tpplan.torch gathers a parameter and reduces its gradient.
#pragma once

#include <span>
#include <vector>

#include "sharding/collective_call.h"
#include "sharding/dtype.h"
#include "sharding/steps.h"

namespace tpplan {

// `forward`: calls before the module computes. `backward`: calls when the gradient of the gathered parameter is ready.
struct ParamCalls {
  std::vector<CollectiveCall> forward, backward;
};

// Returns the calls of rank 0, without their module. A gather sends bytes; a scatter moves its dim to the front and
// pads it to equal shards (tools/python/tpplan/torch/communication.py). An axis of one rank makes no call.
// @pre `steps` are param_steps of the same shape, sharding, reductions and mesh.
[[nodiscard]] ParamCalls param_calls(std::span<const int64_t> shape, DType dtype, const Sharding& sharding,
                                     std::span<const GradReduce> reductions, std::span<const ParamStep> steps,
                                     const Mesh& mesh);

}  // namespace tpplan
