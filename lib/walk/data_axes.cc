#include "walk/data_axes.h"

#include "infer/grad_reduce.h"
#include "sharding/param_calls.h"
#include "walk/record_call.h"
#include "walk/slots.h"

namespace tpplan {
namespace {

// The steps over data axes: what styles sum over model axes is on the tape by itself.
ParamCalls calls_of(const Walk& walk, ParamId id) {
  const Param& param = walk.model.params[id];
  const Sharding& sharding = sharding_of(walk.shardings, id);
  std::vector<GradReduce> reductions = grad_reduce_of(walk.plan, sharding, walk.shardings.params[id].rule);
  std::erase_if(reductions, [&](const GradReduce& reduce) { return !is_data_axis(walk.plan, reduce.axis); });
  const std::span<const int64_t> shape = shape_of(walk.model, param);
  const Mesh& mesh = walk.plan.mesh;
  return param_calls(shape, param.dtype, sharding, reductions,
                     param_steps(shape, sharding, reductions, data_axes_of(walk.plan), mesh), mesh);
}

}  // namespace

bool is_shared(const Walk& walk, ParamId param) {
  if (walk.data_axes.empty()) return false;
  const ParamCalls calls = calls_of(walk, param);
  return !calls.forward.empty() || !calls.backward.empty();
}

void list_gather(Walk& walk, ParamId param) {
  if (walk.data_axes.empty()) return;
  for (CollectiveCall& call : calls_of(walk, param).forward) record_call(walk, std::move(call), module_at(walk));
}

void list_reduction(Walk& walk, ParamId param, ModuleId module) {
  if (walk.data_axes.empty()) return;
  for (CollectiveCall& call : calls_of(walk, param).backward) record_call(walk, std::move(call), module);
}

}  // namespace tpplan
