// What styles do with a value at a boundary, step by step: from_local, redistribute, to_local, sums. Whatever runs a
// plan, its programs are made of these.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "model/module_kinds.h"
#include "sharding/dtype.h"
#include "walk/walk_state.h"

namespace tpplan {

void record_step(Walk& walk, TapeKind kind, SlotId in, SlotId out, Claim gradient, RuleId rule, size_t axis) {
  if (!walk.slots[in].requires_grad || !records_gradients(walk)) return;
  TapeEntry entry{.kind = kind, .gradient = std::move(gradient), .axis = axis, .module = module_at(walk), .rule = rule};
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
  if (s.cause == kNoId) s.cause = add_cause_here(walk, code, std::move(reason), rule, partner, std::move(op));
  Spread layout = walk.table.layouts[s.layout];
  layout.wrong = true;
  s.layout = intern(walk.table, layout);
}

enum class SizeOf : uint8_t { Ranks, Width, Count };

// The sizes of a dim that pieces of these sizes make along an axis, by rank.
std::vector<int64_t> added_up(const MapTable& maps, std::span<const int64_t> sizes, size_t axis) {
  std::vector<int64_t> sums(sizes.size());
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    for (size_t other = 0; other < sizes.size(); ++other) {
      bool beside = true;
      for (size_t i = 0; i < maps.axes.size(); ++i)
        beside = beside && (i == axis || coordinate(maps, rank, i) == coordinate(maps, other, i));
      sums[rank] += beside ? sizes[other] : 0;
    }
  }
  return sums;
}

// Makes a DTensor of what ranks hold. A shard's whole size: as many as all ranks would hold if they held what rank 0
// does; the module's own width; or the sum of what they hold, which they tell each other where no weight says it.
SlotId from_local(Walk& walk, SlotId in, std::span<const Placement> placements, SizeOf size_of, int64_t width,
                  RuleId rule) {
  Spread layout = layout_of(walk, in);
  if (layout.is_dtensor) return in;
  const MapTable& maps = walk.table.maps;
  layout.claim = normalised(placements, layout.dims.size());
  layout.is_dtensor = true;
  layout.local_view = false;
  layout.claimed_shape = local_shape(walk.table, layout, 0);
  const auto cuts = std::count_if(layout.claim.begin(), layout.claim.end(), is_shard);
  std::vector<std::vector<int64_t>> sizes(layout.dims.size());  // of dims whose size is known, by rank
  for (size_t axis = 0; axis < layout.claim.size(); ++axis) {
    if (!is_shard(layout.claim[axis])) continue;
    const auto dim = static_cast<size_t>(layout.claim[axis].dim);
    if (dim >= layout.dims.size()) {
      crash_at(walk, Code::TP5105,
               fmt::format("{} takes its input for cut along dim {}, and it has {} dims", style_name(walk, rule),
                           layout.claim[axis].dim, layout.dims.size()),
               rule);
      return in;
    }
    if (sizes[dim].empty()) sizes[dim] = maps.maps[layout.dims[dim]].local;
    if (width > 0 && (size_of == SizeOf::Width || (cuts == 1 && dim + 1 == layout.dims.size()))) {
      sizes[dim].assign(walk.ranks, width);
    } else if (size_of == SizeOf::Count) {
      sizes[dim] = added_up(maps, sizes[dim], axis);
      record_call(walk, false, CollectiveKind::AllReduce, axis, module_at(walk), {}, "int64");
    } else {
      layout.claimed_shape[dim] *= static_cast<int64_t>(maps.axes[axis]);
      sizes[dim].clear();
    }
    if (!sizes[dim].empty()) layout.claimed_shape[dim] = sizes[dim][0];
  }
  // What the rank holds must be its chunk of that size, as every operation on it assumes.
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    for (size_t rank = 0; rank < sizes[dim].size(); ++rank) {
      Interval wanted{0, sizes[dim][rank]};
      for (size_t axis = 0; axis < layout.claim.size(); ++axis) {
        if (is_shard(layout.claim[axis]) && layout.claim[axis].dim == static_cast<int>(dim))
          wanted =
              chunk(wanted, static_cast<int64_t>(maps.axes[axis]), static_cast<int64_t>(coordinate(maps, rank, axis)));
      }
      const int64_t held = local_size(walk.table, layout, dim, rank);
      if (held == length(wanted)) continue;
      crash_at(
          walk, Code::TP5102,
          fmt::format("{} takes its input for a piece of {} elements, of which rank {} has {}, and the ranks hold {}",
                      style_name(walk, rule), sizes[dim][rank], rank, length(wanted),
                      rank_sizes_text(walk.table.maps.maps[layout.dims[dim]].local)),
          rule, walk.slots[in].origin);
      return in;
    }
  }
  const SlotId out = derived(walk, in, layout, rule, true);
  record_step(walk, TapeKind::FromLocal, in, out, for_gradient(layout.claim), rule);
  return out;
}

}  // namespace

SlotId to_local(Walk& walk, SlotId in, AxisMask open, RuleId rule) {
  Spread layout = layout_of(walk, in);
  if (!layout.is_dtensor) return in;
  Claim gradient = for_gradient(layout.claim);
  for (size_t axis = 0; axis < gradient.size(); ++axis) {
    if ((open & axis_bit(axis)) != 0 && layout.claim[axis].kind == PlacementKind::Replicate)
      gradient[axis].kind = PlacementKind::Partial;
  }
  layout.is_dtensor = false;
  layout.claim = {};
  layout.claimed_shape.clear();
  layout.local_view = true;
  const SlotId out = derived(walk, in, layout, kNoRule, true);
  record_step(walk, TapeKind::ToLocal, in, out, std::move(gradient), rule);
  return out;
}

namespace {

SlotId sum_value(Walk& walk, SlotId in, RuleId rule) {
  Spread layout = layout_of(walk, in);
  const bool open = layout.partial != 0 || layout.zero, cut = is_sharded(walk.table, layout),
             was_dtensor = layout.is_dtensor;
  if (was_dtensor) {
    crash_at(walk, Code::TP5104,
             fmt::format("{} sums a DTensor over the ranks as if it were a tensor", style_name(walk, rule)), rule,
             walk.slots[in].origin);
    return in;
  }
  record_call(walk, false, CollectiveKind::AllReduce, 0, module_at(walk), local_shape(walk.table, layout, 0),
              dtype_of(walk, in));
  layout.partial = 0;
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

SlotId sum_gradient(Walk& walk, SlotId in, size_t axis, RuleId rule) {
  if (!walk.slots[in].requires_grad || !records_gradients(walk)) return in;
  const SlotId out = derived(walk, in, layout_of(walk, in), kNoRule, true);
  record_step(walk, TapeKind::SumGradient, in, out, {}, rule, axis);
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
  ParamId cut = kNone;
  for (ParamId param = module.first_param; param < module.first_param + module.param_count && cut == kNone; ++param) {
    RuleId ignored = kNoRule;
    if (walk.model.params[param].ndim != 2) continue;
    cut = param;
    held = param_layout(walk, param, ignored).dims[0];
  }
  if (held == kNoId || is_whole(walk.table.maps, held) || module.kind != ModuleKind::Linear || layout.dims.empty()) {
    crash_at(walk, Code::TP5105, "gathers a result with segments, which only a Linear that is cut has", rule);
    return in;
  }
  const bool right = layout.dims.back() == held && layout.partial == 0;
  const Param& weight = walk.model.params[cut];
  const DimAxes by = sharding_of(walk.shardings, cut).spec[0];
  std::vector<size_t> axes;
  for (const AxisId axis : by) {
    const auto at = std::find(walk.axes.begin(), walk.axes.end(), axis);
    if (at != walk.axes.end()) axes.push_back(static_cast<size_t>(at - walk.axes.begin()));
  }
  for (; !axes.empty(); axes.pop_back()) {
    // The largest piece along the axis is that of the first rank, segment by segment.
    std::vector<int64_t> shape = local_shape(walk.table, layout, 0);
    shape.back() = 0;
    for (const int64_t segment : segments_of(sharding_of(walk.shardings, cut), 0)) {
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
  layout.dims.back() = whole_map(walk.table.maps, shape_of(walk.model, weight)[0]);
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

SlotId run_step(Walk& walk, StepKind kind, std::span<const Placement> placements, SlotId slot, ModuleId module,
                RuleId rule, bool output) {
  switch (kind) {
    case StepKind::FromLocal:
      return from_local(walk, slot, placements, SizeOf::Ranks, 0, rule);
    case StepKind::FromLocalSized:
      return from_local(walk, slot, placements, SizeOf::Width, width_of(walk, module, output), rule);
    case StepKind::FromLocalCounted:
      return from_local(walk, slot, placements, SizeOf::Count, output ? 0 : in_features_of(walk, module), rule);
    case StepKind::Redistribute:
      return layout_of(walk, slot).is_dtensor ? redistribute_slot(walk, slot, placements, true) : slot;
    case StepKind::ToLocal:
      return to_local(walk, slot, 0, rule);
    case StepKind::ToLocalPartial: {
      AxisMask open = placements.empty() ? kAllAxes : 0;
      for (size_t axis = 0; axis < placements.size(); ++axis)
        open |= placements[axis].kind == PlacementKind::Partial ? axis_bit(axis) : 0;
      return to_local(walk, slot, open, rule);
    }
    case StepKind::SumGradient:
      return sum_gradient(walk, slot, 0, rule);
    case StepKind::SumValue:
      return sum_value(walk, slot, rule);
    case StepKind::Divide: {
      Spread layout = layout_of(walk, slot);
      if (layout.wrong) return slot;
      if (layout.partial != 0 || is_sharded(walk.table, layout)) {
        const SlotId out = derived(walk, slot, layout, rule, true);
        spoil(walk, out, Code::TP5109, "divides by the number of ranks what is no complete value", rule,
              walk.slots[slot].origin, "div");
        return out;
      }
      layout.partial = kAllAxes >> (32 - walk.axes.size());
      const SlotId out = derived(walk, slot, layout, rule, true);
      record_step(walk, TapeKind::Divide, slot, out, {}, rule);
      return out;
    }
    case StepKind::SumTailGradient: {
      // transformers 5.23, MlaKvAProjParallel: asks the configuration for the size, and splits by it.
      const int64_t tail = walk.rope_dim, last = local_shape(walk.table, layout_of(walk, slot), 0).back();
      if (tail <= 0)
        crash_at(walk, Code::TP5105,
                 "mla_kv_a_proj asks for `qk_rope_head_dim`, and the model's configuration has none that holds for all "
                 "layers",
                 rule);
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

namespace {

// One axis of a redistribution.
struct Change {
  size_t axis = 0;
  Placement from, to;
};

// What goes wrong on the way: the first thing counts.
struct Fault {
  std::string reason;
  Code code = Code::TP5107;
};

void set_fault(Fault& fault, Code code, std::string reason) {
  if (fault.reason.empty()) fault = {std::move(reason), code};
}

void gather_axis(Walk& walk, Spread& layout, const Change& change, std::vector<int64_t>& shape, Fault& fault) {
  MapTable& maps = walk.table.maps;
  const auto dim = static_cast<size_t>(change.from.dim);
  const MapId map = layout.dims[dim];
  bool right = false;
  // Pieces are padded to the largest along the axis.
  for (size_t rank = 0; rank < walk.ranks; ++rank) {
    bool beside = true;
    for (size_t i = 0; i < maps.axes.size(); ++i)
      beside = beside && (i == change.axis || coordinate(maps, rank, i) == 0);
    if (beside) shape[dim] = std::max(shape[dim], maps.maps[map].local[rank]);
  }
  layout.dims[dim] = gathered_map(maps, map, change.axis, right);
  if ((layout.partial & axis_bit(change.axis)) != 0) set_fault(fault, Code::TP5108, "gathers a sum that is still open");
  if (!right)
    set_fault(fault, Code::TP5107, fmt::format("gathers dim {} as if it were cut: {}", dim, map_text(maps, map)));
  if (change.from.kind == PlacementKind::StridedShard && right) {
    // Torch puts the pieces back between each other.
    const DimMap gathered = maps.maps[layout.dims[dim]];
    RankRuns runs(walk.ranks);
    for (size_t rank = 0; rank < walk.ranks; ++rank) {
      runs[rank] = runs_of(gathered, rank);
      std::sort(runs[rank].begin(), runs[rank].end(),
                [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    }
    layout.dims[dim] = runs_map(maps, gathered.size, std::move(runs));
  }
}

void sum_axis(Walk& walk, Spread& layout, const Change& change, Fault& fault) {
  if ((cut_axes(walk.table, layout) & axis_bit(change.axis)) != 0)
    set_fault(fault, Code::TP5107, fmt::format("adds up different pieces: {}", layout_text(walk.table, layout)));
  else if ((layout.partial & axis_bit(change.axis)) == 0 && !layout.zero)
    set_fault(fault, Code::TP5109,
              fmt::format("adds up {} times what every rank has complete", walk.table.maps.axes[change.axis]));
  layout.partial &= ~axis_bit(change.axis);
}

bool cut_axis(Walk& walk, Spread& layout, const Change& change, RuleId rule, Fault& fault) {
  const auto dim = static_cast<size_t>(change.to.dim);
  if (dim >= layout.dims.size()) {
    crash_at(walk, Code::TP5105, fmt::format("cuts dim {} of a tensor of {} dims", change.to.dim, layout.dims.size()),
             rule);
    return false;
  }
  MapTable& maps = walk.table.maps;
  const MapId held = layout.dims[dim];
  const bool fresh = (maps.maps[held].axes & axis_bit(change.axis)) == 0 && maps.maps[held].kind != MapKind::Any;
  if (!fresh)
    set_fault(fault, Code::TP5107,
              fmt::format("cuts dim {} again, of which ranks hold pieces: {}", dim, map_text(maps, held)));
  layout.dims[dim] =
      cut_map(maps, held, change.axis, change.to.kind == PlacementKind::StridedShard ? change.to.split_factor : 1);
  if (!fresh) layout.dims[dim] = any_map(maps, maps.maps[held].size, maps.maps[layout.dims[dim]].local);
  if ((layout.partial & axis_bit(change.axis)) != 0) set_fault(fault, Code::TP5108, "cuts a sum that is still open");
  return true;
}

}  // namespace

SlotId redistribute_slot(Walk& walk, SlotId in, std::span<const Placement> wanted, bool on_tape) {
  Spread layout = layout_of(walk, in);
  const Claim from = layout.claim, to = normalised(wanted, layout.dims.size());
  if (from == to) return in;
  const bool was_wrong = layout.wrong;
  const RuleId rule = walk.frames.empty() ? kNoRule : walk.frames.back().rule, before = walk.slots[in].origin;
  const auto steps = redistribute(from, to);
  if (!steps) {
    crash_at(walk, Code::TP5105, "makes an open sum of a value that is none", rule, before);
    return in;
  }
  Fault fault;
  Claim current = from;
  for (const Collective& step : *steps) {
    const Change change{step.axis, current[step.axis], placement_after(step, to)};
    std::vector<int64_t> shape = local_shape(walk.table, layout, 0);
    if (is_shard(change.from))
      gather_axis(walk, layout, change, shape, fault);
    else if (change.from.kind == PlacementKind::Partial)
      sum_axis(walk, layout, change, fault);
    if (step.kind != CollectiveKind::LocalSlice)
      record_call(walk, false, step.kind, change.axis, module_at(walk), std::move(shape), dtype_of(walk, in));
    if (is_shard(change.to) && !cut_axis(walk, layout, change, rule, fault)) return in;
    current[step.axis] = change.to;
  }
  layout.claim = to;
  // Gathering and summing make something new; a slice of a whole value stays the plan's.
  const SlotId out = derived(walk, in, layout, rule, true);
  if (on_tape) record_step(walk, TapeKind::Redistribute, in, out, for_gradient(from), rule);
  if (!fault.reason.empty() && !was_wrong) {
    const std::string who = rule == kNoRule ? "an operation on DTensors" : style_name(walk, rule);
    spoil(walk, out, fault.code, fmt::format("{} {}", who, fault.reason), rule, before, who);
  }
  return out;
}

}  // namespace tpplan
