#include "walk/run/gather_segments.h"

#include <algorithm>

#include "sharding/dtype.h"
#include "walk/report/append_call.h"
#include "walk/state/causes.h"
#include "walk/state/param_layouts.h"
#include "walk/state/slots.h"
#include "walk/state/tape.h"

namespace tpplan {
namespace {

// Returns the module's weight, its first parameter with two dims; kNone if it has none.
ParamId weight_of(const Walk& walk, const Module& module) {
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    if (walk.in.model.params[param].ndim == 2) return param;
  }
  return kNone;
}

// Returns the walked axes that shard dim 0 of a parameter, major to minor.
std::vector<size_t> sharding_axes_of(const Walk& walk, ParamId param) {
  std::vector<size_t> axes;
  for (const AxisId axis : sharding_of(walk.in.shardings, param).spec[0]) {
    const auto at = std::find(walk.in.axes.begin(), walk.in.axes.end(), axis);
    if (at != walk.in.axes.end()) axes.push_back(static_cast<size_t>(at - walk.in.axes.begin()));
  }
  return axes;
}

// Records the all_gather over the last of the axes. It sends the bytes of the largest shard, that of the first rank.
void trace_gather(Walk& walk, SlotId in, ParamId weight, std::span<const size_t> axes) {
  std::vector<int64_t> shape = local_shape(walk.memory.table, layout_of(walk, in), 0);
  shape.back() = 0;
  for (const int64_t segment : segments_of(sharding_of(walk.in.shardings, weight), 0)) {
    Interval run{0, segment};
    for (const size_t axis : axes) run = chunk(run, static_cast<int64_t>(walk.memory.table.maps.axes[axis]), 0);
    shape.back() += length(run);
  }
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  DType type{};
  const bool known = find_dtype(dtype_of(walk, in), type);
  append_call(walk, false, CollectiveKind::AllGather, axes.back(), current_module(walk),
              {known ? static_cast<int64_t>(byte_size(type, static_cast<uint64_t>(count))) : count}, "uint8");
}

}  // namespace

SlotId gather_segments(Walk& walk, SlotId in, ModuleId id, RuleId rule) {
  ValueLayout layout = layout_of(walk, in);
  if (layout.is_dtensor) return in;
  const Module& module = walk.in.model.modules[id];
  const ParamId weight = weight_of(walk, module);
  RuleId ignored = kNoRule;
  const DimLayoutId held = weight == kNone ? kNoId : param_layout(walk, weight, ignored).dims[0];
  if (held == kNoId || is_fully_replicated(walk.memory.table.maps, held) || module.kind != ModuleKind::Linear ||
      layout.dims.empty()) {
    crash_at(walk, Code::UnsupportedCall, "the gather of segments expects the result of a sharded Linear", rule);
    return in;
  }
  const bool right = layout.dims.back() == held && layout.partial == 0;
  for (std::vector<size_t> axes = sharding_axes_of(walk, weight); !axes.empty(); axes.pop_back())
    trace_gather(walk, in, weight, axes);
  layout.dims.back() = replicated_dim(walk.memory.table.maps, shape_of(walk.in.model, walk.in.model.params[weight])[0]);
  layout.local_view = false;
  const RuleId before = walk.memory.slots[in].origin;
  const SlotId out = derive_slot(walk, in, layout, rule);
  walk.memory.slots[out].memory = SlotMemory::Gathered;
  append_step(walk, TapeKind::Gather, in, out, {}, rule);
  if (!right && !layout.wrong)
    mark_slot_wrong(walk, out, Code::ShardsMismatch, "the gathered result is not a shard of this module's result", rule,
                    before, "all_gather");
  return out;
}

}  // namespace tpplan
