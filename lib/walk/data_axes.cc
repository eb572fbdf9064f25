#include "walk/data_axes.h"

#include "infer/grad_reduce.h"
#include "walk/record_call.h"
#include "walk/slots.h"

namespace tpplan {

// The steps over data axes alone: what styles sum over model axes is on the tape by itself.
ParamCalls data_calls(const Walk& walk, ParamId id) {
  if (walk.data_axes.empty()) return {};
  const Param& param = walk.model.params[id];
  const Sharding& sharding = sharding_of(walk.shardings, id);
  std::vector<GradReduce> reductions =
      grad_reduce_of(walk.plan, sharding, walk.shardings.params[id].rule, walk.runtime.runtime);
  std::erase_if(reductions, [&](const GradReduce& reduce) { return !is_data_axis(walk.plan, reduce.axis); });
  const std::span<const int64_t> shape = shape_of(walk.model, param);
  const Mesh& mesh = walk.plan.mesh;
  return param_calls(shape, param.dtype, sharding, reductions,
                     param_steps(shape, sharding, reductions, data_axes_of(walk.plan), mesh), mesh);
}

void list_calls(Walk& walk, std::vector<CollectiveCall> calls, ModuleId module) {
  for (CollectiveCall& call : calls) record_call(walk, std::move(call), module);
}

}  // namespace tpplan
