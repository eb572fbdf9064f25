#include "walk/boundary/steps.h"

#include <spdlog/fmt/fmt.h>

#include "model/module_kinds.h"
#include "walk/report/append_call.h"
#include "walk/run/from_local.h"
#include "walk/run/gather_segments.h"
#include "walk/run/redistribute_slot.h"
#include "walk/state/causes.h"
#include "walk/state/slots.h"
#include "walk/state/tape.h"

namespace tpplan {
namespace {

// All-reduces a plain value in place. The result is right if the value is partial.
SlotId sum_value(Walk& walk, SlotId in, RuleId rule) {
  ValueLayout layout = layout_of(walk, in);
  if (layout.is_dtensor) {
    crash_at(walk, Code::TensorWithDtensor,
             fmt::format("{} sums a DTensor over the ranks as if it were a plain tensor", style_name(walk, rule)), rule,
             walk.memory.slots[in].origin);
    return in;
  }
  const bool has_partial = layout.partial != 0 || layout.zero, has_shards = is_sharded(walk.memory.table, layout);
  append_call(walk, false, CollectiveKind::AllReduce, 0, current_module(walk),
              local_shape(walk.memory.table, layout, 0), dtype_of(walk, in));
  layout.partial = 0;
  layout.local_view = false;
  const RuleId before = walk.memory.slots[in].origin;
  const SlotId out = derive_slot(walk, in, layout, rule);
  append_step(walk, TapeKind::SumValue, in, out, {}, rule);
  if (!layout.wrong && has_shards)
    mark_slot_wrong(walk, out, Code::ShardsMismatch,
                    fmt::format("the all_reduce adds up different shards: {}", layout_text(walk.memory.table, layout)),
                    rule, before, "all_reduce");
  else if (!layout.wrong && !has_partial)
    mark_slot_wrong(walk, out, Code::ReplicatedValueReduced,
                    fmt::format("the all_reduce sums a replicated value: it counts {} times", walk.in.ranks), rule,
                    before, "all_reduce");
  return out;
}

// Divides a replicated value by the number of ranks, so that it becomes a partial sum.
SlotId divide_by_ranks(Walk& walk, SlotId in, RuleId rule) {
  ValueLayout layout = layout_of(walk, in);
  if (layout.wrong) return in;
  if (layout.partial != 0 || is_sharded(walk.memory.table, layout)) {
    const SlotId out = derive_slot(walk, in, layout, rule);
    mark_slot_wrong(walk, out, Code::ReplicatedValueReduced,
                    "the division by the number of ranks expects a replicated value", rule,
                    walk.memory.slots[in].origin, "div");
    return out;
  }
  layout.partial = kAllAxes >> (32 - walk.in.axes.size());
  const SlotId out = derive_slot(walk, in, layout, rule);
  walk.memory.slots[out].memory = SlotMemory::Copy;
  append_step(walk, TapeKind::Divide, in, out, {}, rule);
  return out;
}

// Splits the result at qk_rope_head_dim of the configuration, and all-reduces the gradient of the tail
// (transformers 5.23, MlaKvAProjParallel).
SlotId sum_tail_gradient(Walk& walk, SlotId in, RuleId rule) {
  const int64_t tail = walk.in.model_tables.rope_dim,
                last = local_shape(walk.memory.table, layout_of(walk, in), 0).back();
  if (tail <= 0)
    crash_at(walk, Code::UnsupportedCall,
             "mla_kv_a_proj needs `qk_rope_head_dim`, but the model's configuration has no value for all layers", rule);
  else if (tail > last)
    crash_at(walk, Code::UnsupportedCall,
             fmt::format("mla_kv_a_proj splits off {} elements, but the output has {}", tail, last), rule);
  if (!walk.memory.slots[in].requires_grad || !is_grad_enabled(walk)) return in;
  const SlotId out = derive_slot(walk, in, layout_of(walk, in), kNoRule);
  walk.memory.slots[out].memory = SlotMemory::Copy;
  append_step(walk, TapeKind::SumTailGradient, in, out, {}, rule);
  return out;
}

// Returns the in or out (`output`) size of a Linear's weight [out, in], or the width of an Embedding's [vocabulary,
// width]; 0 if the module has no such weight.
int64_t width_of(const Walk& walk, ModuleId id, bool output) {
  const Module& module = walk.in.model.modules[id];
  for (const Param& param : params_of(walk.in.model, module)) {
    if (param.name != "weight" || param.ndim != 2) continue;
    const auto shape = shape_of(walk.in.model, param);
    return module.kind == ModuleKind::Embedding ? shape[1] : shape[output ? 0 : 1];
  }
  return 0;
}

// Returns in_features if the type of the module has this attribute; 0 otherwise.
int64_t in_features_of(const Walk& walk, ModuleId id) {
  const bool known = (features_of(walk.in.model, walk.in.model.modules[id]) & kInFeatures) != 0;
  return known ? width_of(walk, id, false) : 0;
}

// Returns the axes along which to_local() declares a partial gradient; all axes if no placements are given.
AxisMask partial_gradient(std::span<const Placement> placements) {
  return placements.empty() ? kAllAxes : partial_mask(placements);
}

}  // namespace

SlotId sum_gradient(Walk& walk, SlotId in, size_t axis, RuleId rule) {
  if (!walk.memory.slots[in].requires_grad || !is_grad_enabled(walk)) return in;
  const SlotId out = derive_slot(walk, in, layout_of(walk, in), kNoRule);
  append_step(walk, TapeKind::SumGradient, in, out, {}, rule, axis);
  return out;
}

SlotId run_step(Walk& walk, StepKind kind, std::span<const Placement> placements, SlotId slot, ModuleId module,
                RuleId rule, bool output, const SentTypes& sent) {
  switch (kind) {
    case StepKind::FromLocal:
      return from_local(walk, slot, placements, GlobalSizeSource::Ranks, 0, rule);
    case StepKind::FromLocalSized:
      return from_local(walk, slot, placements, GlobalSizeSource::Width, width_of(walk, module, output), rule);
    case StepKind::FromLocalCounted:
      return from_local(walk, slot, placements, GlobalSizeSource::Count, output ? 0 : in_features_of(walk, module),
                        rule);
    case StepKind::Redistribute:
    case StepKind::RedistributeOther:
      return layout_of(walk, slot).is_dtensor ? redistribute_slot(walk, slot, placements, true, sent) : slot;
    case StepKind::ToLocal:
      return to_local(walk, slot, 0, rule);
    case StepKind::ToLocalPartial:
      return to_local(walk, slot, partial_gradient(placements), rule);
    case StepKind::SumGradient:
      return sum_gradient(walk, slot, 0, rule);
    case StepKind::SumValue:
      return sum_value(walk, slot, rule);
    case StepKind::Divide:
      return divide_by_ranks(walk, slot, rule);
    case StepKind::SumTailGradient:
      return sum_tail_gradient(walk, slot, rule);
    case StepKind::GatherSegments:
      return gather_segments(walk, slot, module, rule);
    case StepKind::Cast:
      return cast_slot(walk, slot, sent, rule);
  }
  return slot;
}

}  // namespace tpplan
