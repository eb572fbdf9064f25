// What styles do with a value at a boundary, step by step: from_local, redistribute, to_local, sums. Whatever runs a
// plan, its programs are made of these.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "model/module_kinds.h"
#include "sharding/dtype.h"
#include "walk/walk_state.h"

namespace tpplan {

Placement normalised(const Placement& placement, size_t ndim) {
  Placement out = placement;
  if (is_shard(out) && out.dim < 0) out.dim += static_cast<int>(ndim);
  return out;
}

Placement for_gradient(const Placement& placement) {
  return placement.kind == PlacementKind::Partial ? Placement{} : placement;
}

void record_step(Walk& walk, TapeKind kind, SlotId in, SlotId out, Placement gradient, RuleId rule) {
  if (!walk.slots[in].requires_grad || !records_gradients(walk)) return;
  TapeEntry entry{.kind = kind, .gradient = gradient, .module = module_at(walk), .rule = rule};
  entry.in_begin = static_cast<uint32_t>(walk.tape_slots.size());
  walk.tape_slots.push_back({in, walk.slots[in].layout});
  entry.in_end = entry.out_begin = static_cast<uint32_t>(walk.tape_slots.size());
  walk.tape_slots.push_back({out, walk.slots[out].layout});
  entry.out_end = static_cast<uint32_t>(walk.tape_slots.size());
  walk.tape.push_back(entry);
}

SlotId derived(Walk& walk, SlotId from, const Spread& layout, RuleId rule, bool keeps_grad) {
  Slot slot = walk.slots[from];
  slot.layout = intern(walk.table, layout);
  slot.requires_grad = keeps_grad && slot.requires_grad && records_gradients(walk);
  if (rule != kNoRule) slot.origin = rule;
  return new_slot(walk, slot);
}

namespace {

// Marks what a step makes as wrong, if it was right before.
void spoil(Walk& walk, SlotId slot, Code code, std::string reason, RuleId rule, RuleId partner, std::string op) {
  Slot& s = walk.slots[slot];
  if (s.cause == kNoId)
    s.cause = add_cause(walk, {.code = code,
                               .reason = std::move(reason),
                               .op = std::move(op),
                               .module = module_at(walk),
                               .rule = rule,
                               .partner = partner,
                               .layouts = {}});
  Spread layout = walk.table.layouts[s.layout];
  layout.wrong = true;
  s.layout = intern(walk.table, layout);
}

enum class SizeOf : uint8_t { Ranks, Width, Count };

// Makes a DTensor of what ranks hold. A shard's whole size: as many as all ranks would hold if they held what rank 0
// does; the module's own width; or the sum of what they hold, which they tell each other where no weight says it.
SlotId from_local(Walk& walk, SlotId in, const Placement& placement, SizeOf size_of, int64_t width, RuleId rule) {
  Spread layout = layout_of(walk, in);
  if (layout.is_dtensor) return in;
  layout.claim = normalised(placement, layout.dims.size());
  layout.is_dtensor = true;
  layout.local_view = false;
  layout.claimed_shape = local_shape(walk.table, layout, 0);
  if (is_shard(layout.claim)) {
    const auto dim = static_cast<size_t>(layout.claim.dim);
    if (dim >= layout.dims.size()) {
      crash_at(walk, Code::TP5105,
               fmt::format("takes a tensor of {} dims for cut along dim {}", layout.dims.size(), layout.claim.dim),
               rule);
      return in;
    }
    int64_t size = width;
    if (size_of == SizeOf::Count && (size <= 0 || dim + 1 != layout.dims.size())) {
      size = 0;
      for (const int64_t n : walk.table.maps.maps[layout.dims[dim]].local) size += n;
      record_call(walk, false, CollectiveKind::AllReduce, module_at(walk), {}, "int64");
    }
    const bool is_checked = size_of != SizeOf::Ranks && size > 0;
    layout.claimed_shape[dim] = is_checked ? size : layout.claimed_shape[dim] * static_cast<int64_t>(walk.ranks);
    // What the rank holds must be its chunk of that width, as every operation on it assumes.
    for (size_t rank = 0; is_checked && rank < walk.ranks; ++rank) {
      const int64_t held = local_size(walk.table, layout, dim, rank);
      const int64_t wanted = length(chunk({0, size}, static_cast<int64_t>(walk.ranks), static_cast<int64_t>(rank)));
      if (held == wanted) continue;
      crash_at(walk, Code::TP5102,
               fmt::format("takes its input for rank {}'s {} of {} elements, and it has {}", rank, wanted, size, held),
               rule, walk.slots[in].origin);
      return in;
    }
  }
  const SlotId out = derived(walk, in, layout, rule, true);
  record_step(walk, TapeKind::FromLocal, in, out, for_gradient(layout.claim), rule);
  return out;
}

}  // namespace

SlotId to_local(Walk& walk, SlotId in, bool partial_gradient, RuleId rule) {
  Spread layout = layout_of(walk, in);
  if (!layout.is_dtensor) return in;
  const Placement gradient = partial_gradient ? Placement{.kind = PlacementKind::Partial} : for_gradient(layout.claim);
  layout.is_dtensor = false;
  layout.claim = {};
  layout.claimed_shape.clear();
  layout.local_view = true;
  const SlotId out = derived(walk, in, layout, kNoRule, true);
  record_step(walk, TapeKind::ToLocal, in, out, gradient, rule);
  return out;
}

namespace {

SlotId sum_value(Walk& walk, SlotId in, RuleId rule) {
  Spread layout = layout_of(walk, in);
  const bool open = layout.partial || layout.zero, cut = is_sharded(walk.table, layout),
             was_dtensor = layout.is_dtensor;
  if (was_dtensor) {
    crash_at(walk, Code::TP5104, "sums a DTensor over the ranks as if it were a tensor", rule, walk.slots[in].origin);
    return in;
  }
  record_call(walk, false, CollectiveKind::AllReduce, module_at(walk), local_shape(walk.table, layout, 0),
              dtype_of(walk, in));
  layout.partial = false;
  layout.local_view = false;
  const RuleId before = walk.slots[in].origin;
  const SlotId out = derived(walk, in, layout, rule, true);
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

}  // namespace

SlotId sum_gradient(Walk& walk, SlotId in, RuleId rule) {
  if (!walk.slots[in].requires_grad || !records_gradients(walk)) return in;
  const SlotId out = derived(walk, in, layout_of(walk, in), kNoRule, true);
  record_step(walk, TapeKind::SumGradient, in, out, {}, rule);
  return out;
}

namespace {

int64_t width_of(const Walk& walk, ModuleId id, bool output) {
  // A Linear's weight is [out, in], an Embedding's [vocabulary, width].
  const Module& module = walk.model.modules[id];
  for (const Param& param : params_of(walk.model, module)) {
    if (param.name != "weight" || param.ndim != 2) continue;
    const auto shape = shape_of(walk.model, param);
    return module.kind == ModuleKind::Embedding ? shape[1] : shape[output ? 0 : 1];
  }
  return 0;
}

// The whole of a result whose last dim is cut as the out dim of the module's weight is, segment by segment. Ranks
// exchange bytes, padded to the largest piece (tools/python/tpplan/torch/communication.py); the gradient is only cut.
SlotId gather_segments(Walk& walk, SlotId in, ModuleId id, RuleId rule) {
  Spread layout = layout_of(walk, in);
  if (layout.is_dtensor) return in;
  const Module& module = walk.model.modules[id];
  MapId held = kNoId;
  for (ParamId param = module.first_param; param < module.first_param + module.param_count; ++param) {
    RuleId ignored = kNoRule;
    if (walk.model.params[param].ndim == 2) held = param_layout(walk, param, ignored).dims[0];
    if (held != kNoId) break;
  }
  if (held == kNoId || is_whole(walk.table.maps, held) || module.kind != ModuleKind::Linear || layout.dims.empty()) {
    crash_at(walk, Code::TP5105, "gathers a result with segments, which only a Linear that is cut has", rule);
    return in;
  }
  const DimMap pieces = walk.table.maps.maps[held];
  std::vector<int64_t> shape = local_shape(walk.table, layout, 0);
  shape.back() = *std::max_element(pieces.local.begin(), pieces.local.end());
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  DType type{};
  const bool known = find_dtype(dtype_of(walk, in), type);
  record_call(walk, false, CollectiveKind::AllGather, module_at(walk),
              {known ? static_cast<int64_t>(byte_size(type, static_cast<uint64_t>(count))) : count}, "uint8");
  const bool right = layout.dims.back() == held && !layout.partial;
  layout.dims.back() = whole_map(walk.table.maps, pieces.size);
  layout.local_view = false;
  const RuleId before = walk.slots[in].origin;
  const SlotId out = derived(walk, in, layout, rule, true);
  record_step(walk, TapeKind::Gather, in, out, {}, rule);
  if (!right && !layout.wrong)
    spoil(walk, out, Code::TP5107, "gathers a result that is no piece of the module's", rule, before, "all_gather");
  return out;
}

int64_t in_features_of(const Walk& walk, ModuleId id) {
  const bool known = (features_of(walk.model, walk.model.modules[id]) & kInFeatures) != 0;
  return known ? width_of(walk, id, false) : 0;
}

}  // namespace

std::string style_name(const Walk& walk, RuleId rule) {
  return rule == kNoRule || walk.plan.rules[rule].style == nullptr ? std::string("the rule")
                                                                   : std::string(walk.plan.rules[rule].style->name);
}

SlotId run_step(Walk& walk, const BoundaryStep& step, SlotId slot, ModuleId module, RuleId rule, bool output) {
  switch (step.kind) {
    case StepKind::FromLocal:
      return from_local(walk, slot, step.placement, SizeOf::Ranks, 0, rule);
    case StepKind::FromLocalSized:
      return from_local(walk, slot, step.placement, SizeOf::Width, width_of(walk, module, output), rule);
    case StepKind::FromLocalCounted:
      return from_local(walk, slot, step.placement, SizeOf::Count, output ? 0 : in_features_of(walk, module), rule);
    case StepKind::Redistribute:
      return layout_of(walk, slot).is_dtensor ? redistribute_slot(walk, slot, step.placement, true) : slot;
    case StepKind::ToLocal:
      return to_local(walk, slot, false, rule);
    case StepKind::ToLocalPartial:
      return to_local(walk, slot, true, rule);
    case StepKind::SumGradient:
      return sum_gradient(walk, slot, rule);
    case StepKind::SumValue:
      return sum_value(walk, slot, rule);
    case StepKind::Divide: {
      Spread layout = layout_of(walk, slot);
      if (layout.wrong) return slot;
      if (layout.partial || is_sharded(walk.table, layout)) {
        const SlotId out = derived(walk, slot, layout, rule, true);
        spoil(walk, out, Code::TP5109, "divides by the number of ranks what is no complete value", rule,
              walk.slots[slot].origin, "div");
        return out;
      }
      layout.partial = true;
      const SlotId out = derived(walk, slot, layout, rule, true);
      record_step(walk, TapeKind::Divide, slot, out, {}, rule);
      return out;
    }
    case StepKind::SumTailGradient: {
      // transformers 5.23, MlaKvAProjParallel: asks the configuration for the size, and splits by it.
      const int64_t tail = walk.rope_dim, last = local_shape(walk.table, layout_of(walk, slot), 0).back();
      if (tail <= 0)
        crash_at(walk, Code::TP5105,
                 "mla_kv_a_proj asks for `qk_rope_head_dim`, and the model's configuration has none", rule);
      else if (tail > last)
        crash_at(walk, Code::TP5105, fmt::format("mla_kv_a_proj splits {} elements off an output of {}", tail, last),
                 rule);
      if (!walk.slots[slot].requires_grad || !records_gradients(walk)) return slot;
      const SlotId out = derived(walk, slot, layout_of(walk, slot), kNoRule, true);
      record_step(walk, TapeKind::SumTailGradient, slot, out, {}, rule);
      return out;
    }
    case StepKind::GatherSegments:
      return gather_segments(walk, slot, module, rule);
  }
  return slot;
}

SlotId redistribute_slot(Walk& walk, SlotId in, const Placement& wanted, bool on_tape) {
  Spread layout = layout_of(walk, in);
  const Placement from = layout.claim, to = normalised(wanted, layout.dims.size());
  if (from == to) return in;
  const bool was_wrong = layout.wrong;
  const RuleId rule = walk.frames.empty() ? kNoRule : walk.frames.back().rule, before = walk.slots[in].origin;
  const std::string_view dtype = dtype_of(walk, in);
  std::string fault;
  Code code = Code::TP5107;
  std::vector<int64_t> shape = local_shape(walk.table, layout, 0);
  if (is_shard(from)) {  // gathered first
    const auto dim = static_cast<size_t>(from.dim);
    const MapId map = layout.dims[dim];
    bool right = false;
    int64_t largest = 0;
    for (const int64_t n : walk.table.maps.maps[map].local) largest = std::max(largest, n);
    if (to.kind == PlacementKind::Replicate || is_shard(to)) {
      shape[dim] = largest;
      record_call(walk, false, is_shard(to) ? CollectiveKind::AllToAll : CollectiveKind::AllGather, module_at(walk),
                  shape, dtype);
    }
    layout.dims[dim] = gathered_map(walk.table.maps, map, right);
    if (!right) fault = fmt::format("gathers dim {} as if it were cut: {}", dim, map_text(walk.table.maps, map));
    if (layout.partial) {
      fault = "gathers a sum that is still open";
      code = Code::TP5108;
    }
    if (from.kind == PlacementKind::StridedShard && right)
      layout.dims[dim] = whole_map(walk.table.maps, walk.table.maps.maps[map].size);
  } else if (from.kind == PlacementKind::Partial) {
    record_call(walk, false, is_shard(to) ? CollectiveKind::ReduceScatter : CollectiveKind::AllReduce, module_at(walk),
                shape, dtype);
    if (is_sharded(walk.table, layout)) {
      fault = fmt::format("adds up different pieces: {}", layout_text(walk.table, layout));
    } else if (!layout.partial && !layout.zero) {
      fault = fmt::format("adds up {} times what every rank has complete", walk.ranks);
      code = Code::TP5109;
    }
    layout.partial = false;
  }
  if (is_shard(to)) {  // and cut
    const auto dim = static_cast<size_t>(to.dim);
    if (dim >= layout.dims.size()) {
      crash_at(walk, Code::TP5105, fmt::format("cuts dim {} of a tensor of {} dims", to.dim, layout.dims.size()), rule);
      return in;
    }
    const DimMap held = walk.table.maps.maps[layout.dims[dim]];
    std::vector<int64_t> sizes;
    for (size_t rank = 0; rank < walk.ranks; ++rank)
      sizes.push_back(
          length(chunk({0, held.local[rank]}, static_cast<int64_t>(walk.ranks), static_cast<int64_t>(rank))));
    if (held.kind == MapKind::Whole) {
      layout.dims[dim] =
          chunked_map(walk.table.maps, held.size, to.kind == PlacementKind::StridedShard ? to.split_factor : 1);
    } else {
      if (fault.empty())
        fault = fmt::format("cuts dim {} again, of which ranks hold pieces: {}", dim,
                            map_text(walk.table.maps, layout.dims[dim]));
      layout.dims[dim] = any_map(walk.table.maps, held.size, std::move(sizes));
    }
    if (layout.partial && fault.empty()) {
      fault = "cuts a sum that is still open";
      code = Code::TP5108;
    }
  }
  layout.claim = to;
  // Gathering and summing make something new; a slice of a whole value stays the plan's.
  const SlotId out = derived(walk, in, layout, rule, true);
  if (on_tape) record_step(walk, TapeKind::Redistribute, in, out, for_gradient(from), rule);
  if (!fault.empty() && !was_wrong) spoil(walk, out, code, std::move(fault), rule, before, style_name(walk, rule));
  return out;
}

}  // namespace tpplan
