#include "walk/run/data_axes.h"

#include "resolve/infer/grad_reduce.h"
#include "walk/report/append_call.h"
#include "walk/state/slots.h"

namespace tpplan {

// Uses the steps over data axes only, because sums over model axes are separate steps on the tape.
ParamCalls data_calls(const Walk& walk, ParamId id) {
  if (walk.in.data_axes.empty()) return {};
  const Param& param = walk.in.model.params[id];
  const Sharding& sharding = sharding_of(walk.in.shardings, id);
  std::vector<GradReduce> reductions =
      grad_reduce_of(walk.in.plan, sharding, walk.in.shardings.params[id].rule, walk.in.runtime.runtime);
  std::erase_if(reductions, [&](const GradReduce& reduce) { return !is_data_axis(walk.in.plan, reduce.axis); });
  const std::span<const int64_t> shape = shape_of(walk.in.model, param);
  const Mesh& mesh = walk.in.plan.mesh;
  return param_calls(shape, param.dtype, sharding, reductions,
                     param_steps(shape, sharding, reductions, data_axes_of(walk.in.plan), mesh), mesh);
}

void list_calls(Walk& walk, std::vector<CollectiveCall> calls, ModuleId module) {
  for (CollectiveCall& call : calls) append_call(walk, std::move(call), module);
}

}  // namespace tpplan
