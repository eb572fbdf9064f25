#include "walk/gather_segments.h"

#include <algorithm>

#include "sharding/dtype.h"
#include "walk/causes.h"
#include "walk/param_layouts.h"
#include "walk/record_call.h"
#include "walk/slots.h"
#include "walk/tape.h"

namespace tpplan {
namespace {

// The module's weight: its first parameter with two dims. kNone where it has none.
ParamId weight_of(const Walk& walk, const Module& module) {
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    if (walk.model.params[param].ndim == 2) return param;
  }
  return kNone;
}

// The walk's axes that cut dim 0 of a parameter, major to minor.
std::vector<size_t> cutting_axes(const Walk& walk, ParamId param) {
  std::vector<size_t> axes;
  for (const AxisId axis : sharding_of(walk.shardings, param).spec[0]) {
    const auto at = std::find(walk.axes.begin(), walk.axes.end(), axis);
    if (at != walk.axes.end()) axes.push_back(static_cast<size_t>(at - walk.axes.begin()));
  }
  return axes;
}

// The call that gathers along the last of the axes: bytes of the largest piece, which is that of the first rank,
// segment by segment.
void record_gather(Walk& walk, SlotId in, ParamId weight, std::span<const size_t> axes) {
  std::vector<int64_t> shape = local_shape(walk.table, layout_of(walk, in), 0);
  shape.back() = 0;
  for (const int64_t segment : segments_of(sharding_of(walk.shardings, weight), 0)) {
    Interval run{0, segment};
    for (const size_t axis : axes) run = chunk(run, static_cast<int64_t>(walk.table.maps.axes[axis]), 0);
    shape.back() += length(run);
  }
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  DType type{};
  const bool known = find_dtype(dtype_of(walk, in), type);
  record_call(walk, false, CollectiveKind::AllGather, axes.back(), module_at(walk),
              {known ? static_cast<int64_t>(byte_size(type, static_cast<uint64_t>(count))) : count}, "uint8");
}

}  // namespace

SlotId gather_segments(Walk& walk, SlotId in, ModuleId id, RuleId rule) {
  Spread layout = layout_of(walk, in);
  if (layout.is_dtensor) return in;
  const Module& module = walk.model.modules[id];
  const ParamId weight = weight_of(walk, module);
  RuleId ignored = kNoRule;
  const MapId held = weight == kNone ? kNoId : param_layout(walk, weight, ignored).dims[0];
  if (held == kNoId || is_whole(walk.table.maps, held) || module.kind != ModuleKind::Linear || layout.dims.empty()) {
    crash_at(walk, Code::TP5105, "gathers a result with segments, which only a Linear that is cut has", rule);
    return in;
  }
  const bool right = layout.dims.back() == held && layout.partial == 0;
  for (std::vector<size_t> axes = cutting_axes(walk, weight); !axes.empty(); axes.pop_back())
    record_gather(walk, in, weight, axes);
  layout.dims.back() = whole_map(walk.table.maps, shape_of(walk.model, walk.model.params[weight])[0]);
  layout.local_view = false;
  const RuleId before = walk.slots[in].origin;
  const SlotId out = derived(walk, in, layout, rule);
  walk.slots[out].memory = SlotMemory::Gathered;
  record_step(walk, TapeKind::Gather, in, out, {}, rule);
  if (!right && !layout.wrong)
    spoil(walk, out, Code::TP5107, "gathers a result that is no piece of the module's", rule, before, "all_gather");
  return out;
}

}  // namespace tpplan
