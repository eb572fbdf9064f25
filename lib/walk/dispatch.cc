// transformers 5.23, distributed/expert_parallel.py: AutoEP, which is AllToAllEP where gradients are recorded and
// AllReduceEP elsewhere; tools/python/tpplan/torch/dispatch.py always does what the second does.
#include "walk/dispatch.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "walk/causes.h"
#include "walk/from_local.h"
#include "walk/record_call.h"
#include "walk/redistribute_slot.h"
#include "walk/slots.h"
#include "walk/tape.h"

namespace tpplan {
namespace {

// The walk's axes that cut dim 0 of a parameter, major to minor.
std::vector<size_t> axes_of_experts(const Walk& walk, ParamId param) {
  std::vector<size_t> axes;
  const Sharding& sharding = sharding_of(walk.shardings, param);
  if (sharding.spec.empty()) return axes;
  for (const AxisId axis : sharding.spec[0]) {
    const auto at = std::find(walk.axes.begin(), walk.axes.end(), axis);
    if (at != walk.axes.end()) axes.push_back(static_cast<size_t>(at - walk.axes.begin()));
  }
  return axes;
}

std::vector<size_t> axes_of_experts(const Walk& walk, const Module& module) {
  return module.param_count == 0 ? std::vector<size_t>{} : axes_of_experts(walk, module.first_param);
}

bool exchanges_tokens(const Walk& walk) {
  return walk.runtime.runtime == PlanRuntime::Transformers && records_gradients(walk);
}

int64_t first_piece(int64_t size, int64_t ranks) { return (size + ranks - 1) / ranks; }

// Of one rank's part of the tokens a row for each expert that they go to. What is sent is as much on every rank, what
// comes is known from data alone.
std::vector<int64_t> rows_sent(const Walk& walk, SlotId result, SlotId chosen) {
  std::vector<int64_t> shape = local_shape(walk.table, layout_of(walk, result), 0);
  const auto picks = shape_of(walk, chosen);
  const auto ranks = static_cast<int64_t>(walk.ranks);
  return {first_piece(shape.front(), ranks) * (picks.empty() ? 1 : picks.back()), shape.back()};
}

}  // namespace

bool check_experts(Walk& walk, ModuleId id, RuleId rule) {
  const Module& module = walk.model.modules[id];
  const std::vector<size_t> axes = axes_of_experts(walk, module);
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    if (axes_of_experts(walk, param) == axes) continue;
    crash_at(walk, Code::TP5105,
             fmt::format("of `{}` and `{}` a rank does not have the same experts",
                         walk.model.params[module.first_param].name, walk.model.params[param].name),
             rule, walk.shardings.params[param].rule);
    return false;
  }
  const AxisId own = rule == kNoRule ? kNoAxis : walk.plan.rules[rule].axis;
  const bool is_walked = std::find(walk.axes.begin(), walk.axes.end(), own) != walk.axes.end();
  if (!axes.empty() || !is_walked) return true;
  crash_at(walk, Code::TP5105, "every rank has all of the experts: no rule deals out their weights (grouped_gemm)",
           rule);
  return false;
}

SlotId join_experts(Walk& walk, SlotId slot, RuleId rule) {
  slot = to_local(walk, slot, 0, rule);
  Spread layout = layout_of(walk, slot);
  const auto shape = shape_of(walk, slot);
  if (shape.empty() || is_whole(walk.table.maps, layout.dims[0])) return slot;
  layout.dims[0] = whole_map(walk.table.maps, shape[0]);
  layout.local_view = false;
  const SlotId out = derived(walk, slot, layout, rule);
  record_step(walk, TapeKind::Gather, slot, out, {}, rule);
  return out;
}

SlotId dispatch_tokens(Walk& walk, SlotId slot, RuleId rule) {
  const RuleId before = walk.slots[slot].origin;
  if (layout_of(walk, slot).is_dtensor && walk.runtime.runtime == PlanRuntime::Tpplan)
    slot = redistribute_slot(walk, slot, whole_claim(walk), true);
  slot = to_local(walk, slot, 0, rule);
  if (walk.crash != kNoId) return slot;
  const SlotId out = derived(walk, slot, layout_of(walk, slot), kNoRule);
  record_step(walk, TapeKind::Dispatch, slot, out, {}, rule);
  const Spread& layout = layout_of(walk, out);
  if (!layout.wrong && !is_all_whole(walk.table, layout))
    spoil(walk, out, Code::TP5107,
          fmt::format("each rank takes what it has for all of the tokens: {}", layout_text(walk.table, layout)), rule,
          before, "dispatch");
  return out;
}

SlotId combine_tokens(Walk& walk, SlotId slot, const ModuleFrame& frame) {
  const Module& module = walk.model.modules[frame.module];
  const std::vector<size_t> axes = axes_of_experts(walk, module);
  if (axes.empty()) return slot;
  const SlotId out = derived(walk, slot, layout_of(walk, slot), frame.rule);
  walk.slots[out].memory = SlotMemory::Copy;
  std::vector<int64_t> whole = local_shape(walk.table, layout_of(walk, slot), 0);
  const std::string_view type = dtype_of(walk, slot);
  if (!exchanges_tokens(walk) || frame.chosen == kNoId || whole.empty()) {
    for (const size_t axis : axes) record_call(walk, false, CollectiveKind::AllReduce, axis, frame.module, whole, type);
    record_step(walk, TapeKind::Combine, slot, out, {}, frame.rule);
    return out;
  }
  const auto ranks = static_cast<int64_t>(walk.ranks);
  const std::vector<int64_t> rows = rows_sent(walk, slot, frame.chosen);
  const int64_t experts = shape_of(walk.model, walk.model.params[module.first_param])[0];
  record_call(walk, false, CollectiveKind::AllToAll, axes[0], frame.module, {ranks, experts / ranks}, "int64");
  record_call(walk, false, CollectiveKind::AllToAll, axes[0], frame.module, rows, type);
  record_call(walk, false, CollectiveKind::AllToAll, axes[0], frame.module, rows, type);
  whole.front() = first_piece(whole.front(), ranks);
  record_call(walk, false, CollectiveKind::AllGather, axes[0], frame.module, whole, type);
  if (!walk.slots[slot].requires_grad) return out;
  const auto at = [&](SlotId id) { return TapeSlot{id, walk.slots[id].layout}; };
  const TapeSlot ins[] = {at(slot), at(frame.chosen)}, outs[] = {at(out)};
  add_to_tape(walk, {.kind = TapeKind::Combine, .axis = axes[0], .module = frame.module, .rule = frame.rule}, ins,
              outs);
  return out;
}

void list_dispatch_back(Walk& walk, const TapeEntry& entry) {
  const SlotId in = walk.tape_slots[entry.in_begin].slot;
  const std::vector<size_t> axes = axes_of_experts(walk, walk.model.modules[entry.module]);
  const bool exchanges = walk.runtime.runtime == PlanRuntime::Transformers;
  if (entry.kind == TapeKind::Combine) {
    if (!exchanges || entry.in_end - entry.in_begin < 2) return;
    const std::vector<int64_t> rows = rows_sent(walk, in, walk.tape_slots[entry.in_begin + 1].slot);
    for (int i = 0; i < 2; ++i)
      record_call(walk, true, CollectiveKind::AllToAll, axes[0], entry.module, rows, dtype_of(walk, in));
    return;
  }
  std::vector<int64_t> shape = local_shape(walk.table, layout_of(walk, in), 0);
  if (exchanges && !shape.empty()) shape[0] = first_piece(shape[0], static_cast<int64_t>(walk.ranks));
  for (const size_t axis : axes)
    record_call(walk, true, exchanges ? CollectiveKind::AllGather : CollectiveKind::AllReduce, axis, entry.module,
                shape, dtype_of(walk, in));
}

}  // namespace tpplan
