#include "walk/steps.h"

#include <spdlog/fmt/fmt.h>

#include "model/module_kinds.h"
#include "walk/causes.h"
#include "walk/from_local.h"
#include "walk/gather_segments.h"
#include "walk/record_call.h"
#include "walk/redistribute_slot.h"
#include "walk/slots.h"
#include "walk/tape.h"

namespace tpplan {
namespace {

// The sum over the ranks, in place of the value (native). Right where each has a term of it.
SlotId sum_value(Walk& walk, SlotId in, RuleId rule) {
  Spread layout = layout_of(walk, in);
  if (layout.is_dtensor) {
    crash_at(walk, Code::TP5104,
             fmt::format("{} sums a DTensor over the ranks as if it were a tensor", style_name(walk, rule)), rule,
             walk.slots[in].origin);
    return in;
  }
  const bool open = layout.partial != 0 || layout.zero, cut = is_sharded(walk.table, layout);
  record_call(walk, false, CollectiveKind::AllReduce, 0, module_at(walk), local_shape(walk.table, layout, 0),
              dtype_of(walk, in));
  layout.partial = 0;
  layout.local_view = false;
  const RuleId before = walk.slots[in].origin;
  const SlotId out = derived(walk, in, layout, rule);
  record_step(walk, TapeKind::SumValue, in, out, {}, rule);
  if (!layout.wrong && cut)
    spoil(walk, out, Code::TP5107,
          fmt::format("the sum over the ranks adds up different pieces: {}", layout_text(walk.table, layout)), rule,
          before, "all_reduce");
  else if (!layout.wrong && !open)
    spoil(walk, out, Code::TP5109,
          fmt::format("the sum over the ranks adds up {} times what every rank has complete", walk.ranks), rule, before,
          "all_reduce");
  return out;
}

// A complete value by the number of ranks: a term of a sum, which gives the value again.
SlotId divide(Walk& walk, SlotId in, RuleId rule) {
  Spread layout = layout_of(walk, in);
  if (layout.wrong) return in;
  if (layout.partial != 0 || is_sharded(walk.table, layout)) {
    const SlotId out = derived(walk, in, layout, rule);
    spoil(walk, out, Code::TP5109, "divides by the number of ranks what is no complete value", rule,
          walk.slots[in].origin, "div");
    return out;
  }
  layout.partial = kAllAxes >> (32 - walk.axes.size());
  const SlotId out = derived(walk, in, layout, rule);
  walk.slots[out].memory = SlotMemory::Copy;
  record_step(walk, TapeKind::Divide, in, out, {}, rule);
  return out;
}

// transformers 5.23, MlaKvAProjParallel: asks the configuration for the size, and splits by it.
SlotId sum_tail_gradient(Walk& walk, SlotId in, RuleId rule) {
  const int64_t tail = walk.model_tables.rope_dim, last = local_shape(walk.table, layout_of(walk, in), 0).back();
  if (tail <= 0)
    crash_at(walk, Code::TP5105,
             "mla_kv_a_proj asks for `qk_rope_head_dim`, and the model's configuration has none that holds for all "
             "layers",
             rule);
  else if (tail > last)
    crash_at(walk, Code::TP5105, fmt::format("mla_kv_a_proj splits {} elements off an output of {}", tail, last), rule);
  if (!walk.slots[in].requires_grad || !records_gradients(walk)) return in;
  const SlotId out = derived(walk, in, layout_of(walk, in), kNoRule);
  walk.slots[out].memory = SlotMemory::Copy;
  record_step(walk, TapeKind::SumTailGradient, in, out, {}, rule);
  return out;
}

// Of a Linear's weight, [out, in], or an Embedding's, [vocabulary, width]; 0 where the module has none.
int64_t width_of(const Walk& walk, ModuleId id, bool output) {
  const Module& module = walk.model.modules[id];
  for (const Param& param : params_of(walk.model, module)) {
    if (param.name != "weight" || param.ndim != 2) continue;
    const auto shape = shape_of(walk.model, param);
    return module.kind == ModuleKind::Embedding ? shape[1] : shape[output ? 0 : 1];
  }
  return 0;
}

// Where the module's type has it as an attribute; 0 elsewhere.
int64_t in_features_of(const Walk& walk, ModuleId id) {
  const bool known = (features_of(walk.model, walk.model.modules[id]) & kInFeatures) != 0;
  return known ? width_of(walk, id, false) : 0;
}

// The axes whose sums to_local() is told to leave open; all, where nothing is said.
AxisMask open_gradient(std::span<const Placement> placements) {
  return placements.empty() ? kAllAxes : open_mask(placements);
}

}  // namespace

SlotId sum_gradient(Walk& walk, SlotId in, size_t axis, RuleId rule) {
  if (!walk.slots[in].requires_grad || !records_gradients(walk)) return in;
  const SlotId out = derived(walk, in, layout_of(walk, in), kNoRule);
  record_step(walk, TapeKind::SumGradient, in, out, {}, rule, axis);
  return out;
}

SlotId run_step(Walk& walk, StepKind kind, std::span<const Placement> placements, SlotId slot, ModuleId module,
                RuleId rule, bool output, const SentTypes& sent) {
  switch (kind) {
    case StepKind::FromLocal:
      return from_local(walk, slot, placements, SizeOf::Ranks, 0, rule);
    case StepKind::FromLocalSized:
      return from_local(walk, slot, placements, SizeOf::Width, width_of(walk, module, output), rule);
    case StepKind::FromLocalCounted:
      return from_local(walk, slot, placements, SizeOf::Count, output ? 0 : in_features_of(walk, module), rule);
    case StepKind::Redistribute:
      return layout_of(walk, slot).is_dtensor ? redistribute_slot(walk, slot, placements, true, sent) : slot;
    case StepKind::ToLocal:
      return to_local(walk, slot, 0, rule);
    case StepKind::ToLocalPartial:
      return to_local(walk, slot, open_gradient(placements), rule);
    case StepKind::SumGradient:
      return sum_gradient(walk, slot, 0, rule);
    case StepKind::SumValue:
      return sum_value(walk, slot, rule);
    case StepKind::Divide:
      return divide(walk, slot, rule);
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
