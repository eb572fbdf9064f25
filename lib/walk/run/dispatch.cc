// transformers 5.23, distributed/expert_parallel.py: AutoEP is AllToAllEP if gradients are enabled, and AllReduceEP
// otherwise. tools/python/tpplan/torch/dispatch.py always does the same as AllReduceEP.
#include "walk/run/dispatch.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "walk/report/append_call.h"
#include "walk/run/from_local.h"
#include "walk/run/redistribute_slot.h"
#include "walk/state/causes.h"
#include "walk/state/slots.h"
#include "walk/state/tape.h"

namespace tpplan {
namespace {

// Returns the walked axes that shard dim 0 of a parameter, major to minor.
std::vector<size_t> axes_of_experts(const Walk& walk, ParamId param) {
  std::vector<size_t> axes;
  const Sharding& sharding = sharding_of(walk.in.shardings, param);
  if (sharding.spec.empty()) return axes;
  for (const AxisId axis : sharding.spec[0]) {
    const auto at = std::find(walk.in.axes.begin(), walk.in.axes.end(), axis);
    if (at != walk.in.axes.end()) axes.push_back(static_cast<size_t>(at - walk.in.axes.begin()));
  }
  return axes;
}

std::vector<size_t> axes_of_experts(const Walk& walk, const Module& module) {
  return module.param_count == 0 ? std::vector<size_t>{} : axes_of_experts(walk, module.first_param);
}

bool exchanges_tokens(const Walk& walk) {
  return walk.in.runtime.runtime == PlanRuntime::Transformers && is_grad_enabled(walk);
}

int64_t first_chunk(int64_t size, int64_t ranks) { return (size + ranks - 1) / ranks; }

// Returns the shape of a rank's send buffer: its share of the tokens, one row for each chosen expert. Every rank sends
// the same number of rows; the number of received rows depends on the data.
std::vector<int64_t> rows_sent(const Walk& walk, SlotId result, SlotId chosen) {
  std::vector<int64_t> shape = local_shape(walk.memory.table, layout_of(walk, result), 0);
  const auto picks = shape_of(walk, chosen);
  const auto ranks = static_cast<int64_t>(walk.in.ranks);
  return {first_chunk(shape.front(), ranks) * (picks.empty() ? 1 : picks.back()), shape.back()};
}

}  // namespace

bool check_experts(Walk& walk, ModuleId id, RuleId rule) {
  const Module& module = walk.in.model.modules[id];
  const std::vector<size_t> axes = axes_of_experts(walk, module);
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    if (axes_of_experts(walk, param) == axes) continue;
    crash_at(walk, Code::UnsupportedCall,
             fmt::format("`{}` and `{}` are sharded differently, but a rank needs the same experts of both",
                         walk.in.model.params[module.first_param].name, walk.in.model.params[param].name),
             rule, walk.in.shardings.params[param].rule);
    return false;
  }
  const AxisId expert_axis = rule == kNoRule ? kNoAxis : walk.in.plan.rules[rule].axis;
  const bool is_walked = std::find(walk.in.axes.begin(), walk.in.axes.end(), expert_axis) != walk.in.axes.end();
  if (!axes.empty() || !is_walked) return true;
  crash_at(walk, Code::UnsupportedCall, "every rank has all experts: no rule shards their weights (grouped_gemm)",
           rule);
  return false;
}

SlotId gather_expert_param(Walk& walk, SlotId slot, RuleId rule) {
  slot = to_local(walk, slot, 0, rule);
  ValueLayout layout = layout_of(walk, slot);
  const auto shape = shape_of(walk, slot);
  if (shape.empty() || is_fully_replicated(walk.memory.table.maps, layout.dims[0])) return slot;
  layout.dims[0] = replicated_dim(walk.memory.table.maps, shape[0]);
  layout.local_view = false;
  const SlotId out = derive_slot(walk, slot, layout, rule);
  append_step(walk, TapeKind::Gather, slot, out, {}, rule);
  return out;
}

SlotId dispatch_tokens(Walk& walk, SlotId slot, RuleId rule) {
  const RuleId before = walk.memory.slots[slot].origin;
  if (layout_of(walk, slot).is_dtensor && walk.in.runtime.runtime == PlanRuntime::Tpplan)
    slot = redistribute_slot(walk, slot, replicated_placements(walk), true);
  slot = to_local(walk, slot, 0, rule);
  if (walk.out.crash != kNoId) return slot;
  const SlotId out = derive_slot(walk, slot, layout_of(walk, slot), kNoRule);
  append_step(walk, TapeKind::Dispatch, slot, out, {}, rule);
  const ValueLayout& layout = layout_of(walk, out);
  if (!layout.wrong && !is_all_replicated(walk.memory.table, layout))
    mark_slot_wrong(
        walk, out, Code::ShardsMismatch,
        fmt::format("each rank treats its local tokens as all tokens: {}", layout_text(walk.memory.table, layout)),
        rule, before, "dispatch");
  return out;
}

SlotId combine_tokens(Walk& walk, SlotId slot, const ModuleFrame& frame) {
  const Module& module = walk.in.model.modules[frame.module];
  const std::vector<size_t> axes = axes_of_experts(walk, module);
  if (axes.empty()) return slot;
  const SlotId out = derive_slot(walk, slot, layout_of(walk, slot), frame.rule);
  walk.memory.slots[out].memory = SlotMemory::Copy;
  std::vector<int64_t> shape = local_shape(walk.memory.table, layout_of(walk, slot), 0);
  const std::string_view type = dtype_of(walk, slot);
  if (!exchanges_tokens(walk) || frame.chosen == kNoId || shape.empty()) {
    for (const size_t axis : axes) append_call(walk, false, CollectiveKind::AllReduce, axis, frame.module, shape, type);
    append_step(walk, TapeKind::Combine, slot, out, {}, frame.rule);
    return out;
  }
  const auto ranks = static_cast<int64_t>(walk.in.ranks);
  const std::vector<int64_t> rows = rows_sent(walk, slot, frame.chosen);
  const int64_t experts = shape_of(walk.in.model, walk.in.model.params[module.first_param])[0];
  append_call(walk, false, CollectiveKind::AllToAll, axes[0], frame.module, {ranks, experts / ranks}, "int64");
  append_call(walk, false, CollectiveKind::AllToAll, axes[0], frame.module, rows, type);
  append_call(walk, false, CollectiveKind::AllToAll, axes[0], frame.module, rows, type);
  shape.front() = first_chunk(shape.front(), ranks);
  append_call(walk, false, CollectiveKind::AllGather, axes[0], frame.module, shape, type);
  if (!walk.memory.slots[slot].requires_grad) return out;
  const auto at = [&](SlotId id) { return TapeSlot{id, walk.memory.slots[id].layout}; };
  const TapeSlot ins[] = {at(slot), at(frame.chosen)}, outs[] = {at(out)};
  add_to_tape(walk, {.kind = TapeKind::Combine, .axis = axes[0], .module = frame.module, .rule = frame.rule}, ins,
              outs);
  return out;
}

void list_dispatch_backward(Walk& walk, const TapeEntry& entry) {
  const SlotId in = walk.memory.tape_slots[entry.in_begin].slot;
  const std::vector<size_t> axes = axes_of_experts(walk, walk.in.model.modules[entry.module]);
  const bool exchanges = walk.in.runtime.runtime == PlanRuntime::Transformers;
  if (entry.kind == TapeKind::Combine) {
    if (!exchanges || entry.in_end - entry.in_begin < 2) return;
    const std::vector<int64_t> rows = rows_sent(walk, in, walk.memory.tape_slots[entry.in_begin + 1].slot);
    for (int i = 0; i < 2; ++i)
      append_call(walk, true, CollectiveKind::AllToAll, axes[0], entry.module, rows, dtype_of(walk, in));
    return;
  }
  std::vector<int64_t> shape = local_shape(walk.memory.table, layout_of(walk, in), 0);
  if (exchanges && !shape.empty()) shape[0] = first_chunk(shape[0], static_cast<int64_t>(walk.in.ranks));
  for (const size_t axis : axes)
    append_call(walk, true, exchanges ? CollectiveKind::AllGather : CollectiveKind::AllReduce, axis, entry.module,
                shape, dtype_of(walk, in));
}

}  // namespace tpplan
