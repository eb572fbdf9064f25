// Styles at the boundaries of modules: their programs, step by step.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

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

namespace {

SlotId derived(Walk& walk, SlotId from, const Spread& layout, RuleId rule, bool keeps_grad) {
  Slot slot = walk.slots[from];
  slot.layout = intern(walk.table, layout);
  slot.requires_grad = keeps_grad && slot.requires_grad && records_gradients(walk);
  if (rule != kNoRule) slot.origin = rule;
  return new_slot(walk, slot);
}

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

SlotId from_local(Walk& walk, SlotId in, const Placement& placement, int64_t size, RuleId rule) {
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
    layout.claimed_shape[dim] = size > 0 ? size : layout.claimed_shape[dim] * static_cast<int64_t>(walk.ranks);
    // What the rank holds must be its chunk of that width, as every operation on it assumes.
    for (size_t rank = 0; size > 0 && rank < walk.ranks; ++rank) {
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

SlotId sum_value(Walk& walk, SlotId in, RuleId rule) {
  Spread layout = layout_of(walk, in);
  const bool open = layout.partial || layout.zero, cut = is_sharded(walk.table, layout),
             was_dtensor = layout.is_dtensor;
  if (was_dtensor) {
    crash_at(walk, Code::TP5104, "sums a DTensor over the ranks as if it were a tensor", rule, walk.slots[in].origin);
    return in;
  }
  record_call(walk, false, CollectiveKind::AllReduce, module_at(walk), local_shape(walk.table, layout, 0),
              walk.graph.values[walk.slots[in].value].dtype);
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

SlotId sum_gradient(Walk& walk, SlotId in, RuleId rule) {
  if (!walk.slots[in].requires_grad || !records_gradients(walk)) return in;
  const SlotId out = derived(walk, in, layout_of(walk, in), kNoRule, true);
  record_step(walk, TapeKind::SumGradient, in, out, {}, rule);
  return out;
}

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

SlotId run_step(Walk& walk, const BoundaryStep& step, SlotId slot, const ModuleFrame& frame, bool output) {
  switch (step.kind) {
    case StepKind::FromLocal:
      return from_local(walk, slot, step.placement, 0, frame.rule);
    case StepKind::FromLocalSized:
      return from_local(walk, slot, step.placement, width_of(walk, frame.module, output), frame.rule);
    case StepKind::Redistribute:
      return layout_of(walk, slot).is_dtensor ? redistribute_slot(walk, slot, step.placement, true) : slot;
    case StepKind::ToLocal:
      return to_local(walk, slot, false, frame.rule);
    case StepKind::ToLocalPartial:
      return to_local(walk, slot, true, frame.rule);
    case StepKind::SumGradient:
      return sum_gradient(walk, slot, frame.rule);
    case StepKind::SumValue:
      return sum_value(walk, slot, frame.rule);
    case StepKind::Divide: {
      Spread layout = layout_of(walk, slot);
      if (layout.wrong) return slot;
      if (layout.partial || is_sharded(walk.table, layout)) {
        const SlotId out = derived(walk, slot, layout, frame.rule, true);
        spoil(walk, out, Code::TP5109, "divides by the number of ranks what is no complete value", frame.rule,
              walk.slots[slot].origin, "div");
        return out;
      }
      layout.partial = true;
      const SlotId out = derived(walk, slot, layout, frame.rule, true);
      record_step(walk, TapeKind::Divide, slot, out, {}, frame.rule);
      return out;
    }
    case StepKind::SumTailGradient: {
      // transformers 5.23, MlaKvAProjParallel: asks the configuration for the size, and splits by it.
      const int64_t tail = walk.rope_dim, last = local_shape(walk.table, layout_of(walk, slot), 0).back();
      if (tail <= 0)
        crash_at(walk, Code::TP5105,
                 "mla_kv_a_proj asks for `qk_rope_head_dim`, and the model's configuration has none", frame.rule);
      else if (tail > last)
        crash_at(walk, Code::TP5105, fmt::format("mla_kv_a_proj splits {} elements off an output of {}", tail, last),
                 frame.rule);
      if (!walk.slots[slot].requires_grad || !records_gradients(walk)) return slot;
      const SlotId out = derived(walk, slot, layout_of(walk, slot), kNoRule, true);
      record_step(walk, TapeKind::SumTailGradient, slot, out, {}, frame.rule);
      return out;
    }
  }
  return slot;
}

void see_params_locally(Walk& walk, ModuleFrame& frame) {
  const Module& module = walk.model.modules[frame.module];
  for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id) {
    const ValueId value = walk.value_of_param[id];
    if (value == kNoId) continue;
    const SlotId whole = walk.slot_of[value];
    const bool bias = frame.fast && frame.program->hides_bias && walk.model.params[id].name == "bias";
    if (bias) {
      // The module runs without it; the sum adds it.
      frame.bias = to_local(walk, whole, false, frame.rule);
      Spread none = whole_layout(walk.table, shape_of(walk, whole));
      none.zero = true;
      for (size_t dim = 0; dim < none.dims.size(); ++dim)
        none.dims[dim] = any_map(walk.table.maps, 1, std::vector<int64_t>(walk.ranks, 1));
      frame.hidden.emplace_back(value, whole);
      Slot slot = walk.slots[whole];
      slot.layout = intern(walk.table, none);
      bind(walk, value, new_slot(walk, slot));
      continue;
    }
    if (!layout_of(walk, whole).is_dtensor) continue;
    frame.hidden.emplace_back(value, whole);
    bind(walk, value, to_local(walk, whole, false, frame.rule));
  }
}

std::string style_name(const Walk& walk, RuleId rule) {
  return rule == kNoRule || walk.plan.rules[rule].style == nullptr ? std::string("the rule")
                                                                   : std::string(walk.plan.rules[rule].style->name);
}

}  // namespace

SlotId redistribute_slot(Walk& walk, SlotId in, const Placement& wanted, bool on_tape) {
  Spread layout = layout_of(walk, in);
  const Placement from = layout.claim, to = normalised(wanted, layout.dims.size());
  if (from == to) return in;
  const bool was_wrong = layout.wrong;
  const RuleId rule = walk.frames.empty() ? kNoRule : walk.frames.back().rule, before = walk.slots[in].origin;
  const StringId dtype = walk.graph.values[walk.slots[in].value].dtype;
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

Spread param_layout(Walk& walk, ParamId id, RuleId& rule) {
  const Param& param = walk.model.params[id];
  const auto shape = shape_of(walk.model, param);
  Spread layout = whole_layout(walk.table, shape);
  rule = walk.matches.params[id].rule;
  const StyleRow* style = rule == kNoRule ? nullptr : walk.plan.rules[rule].style;
  const Sharding& sharding = sharding_of(walk.shardings, id);
  for (size_t dim = 0; dim < sharding.spec.size() && dim < shape.size(); ++dim) {
    if (std::find(sharding.spec[dim].begin(), sharding.spec[dim].end(), walk.axis) == sharding.spec[dim].end())
      continue;
    const auto segments = segments_of(sharding, dim);
    layout.claim = {.kind = PlacementKind::Shard, .dim = static_cast<int>(dim)};
    if (segments.size() > 1) {
      layout.claim = {.kind = PlacementKind::StridedShard,
                      .dim = static_cast<int>(dim),
                      .split_factor = static_cast<int64_t>(segments.size())};
      RankRuns runs(walk.ranks);
      int64_t at = 0;
      for (const int64_t size : segments) {
        for (size_t rank = 0; rank < walk.ranks; ++rank)
          runs[rank].push_back(chunk({at, at + size}, static_cast<int64_t>(walk.ranks), static_cast<int64_t>(rank)));
        at += size;
      }
      layout.dims[dim] = runs_map(walk.table.maps, shape[dim], std::move(runs));
    } else {
      layout.dims[dim] = chunked_map(walk.table.maps, shape[dim]);
    }
    layout.is_dtensor = true;
  }
  // A style that cuts parameters makes DTensors of those that it leaves whole, too.
  if (style != nullptr && !style->cut_dim.empty()) layout.is_dtensor = true;
  const RuleId module_rule = walk.rule_of_module[param.module];
  const StyleRow* module_style = module_rule == kNoRule ? nullptr : walk.plan.rules[module_rule].style;
  if (module_style != nullptr && module_style->wraps_parameters) layout.is_dtensor = true;
  if (layout.is_dtensor) layout.claimed_shape.assign(shape.begin(), shape.end());
  return layout;
}

void enter_module(Walk& walk, const GraphNode& node) {
  ModuleFrame frame{.module = walk.module_of_string[node.name]};
  frame.rule = walk.rule_of_module[frame.module];
  frame.no_grad = node.no_grad || (!walk.frames.empty() && walk.frames.back().no_grad);
  const StyleRow* style = frame.rule == kNoRule ? nullptr : walk.plan.rules[frame.rule].style;
  if (style != nullptr) frame.program = find_transformers_program(style->name);
  walk.frames.push_back(frame);
  const auto crossings =
      std::span(walk.graph.crossings).subspan(node.crossing_begin, node.crossing_end - node.crossing_begin);
  if (frame.program == nullptr) {
    for (const Crossing& c : crossings) bind(walk, c.to, walk.slot_of[c.from]);
    return;
  }
  const StyleProgram& program = *frame.program;
  ModuleFrame& own = walk.frames.back();
  own.fast =
      program.has_fast_path && !records_gradients(walk) && walk.model.modules[frame.module].kind == ModuleKind::Linear;
  // Parameters become local when the forward begins, after the inputs were prepared.
  bool has_first = false;
  for (const Crossing& c : crossings) has_first = has_first || (c.position == 0 && c.depth == 1);
  if (program.takes_first && (node.positional == 0 || !has_first)) {
    crash_at(walk, Code::TP5105,
             node.positional == 0
                 ? fmt::format("{} takes the first positional argument, and the module is called with keywords only",
                               style->name)
                 : fmt::format("{} takes a tensor as first argument, and the module gets something else", style->name),
             frame.rule);
    return;
  }
  for (const Crossing& c : crossings) {
    // A value that enters twice is the one outside, whatever the style made of its first place.
    ValueId outside = c.from;
    for (const Crossing& b : crossings) {
      if (b.to == outside) outside = b.from;
    }
    SlotId slot = walk.slot_of[outside];
    const bool first = c.depth == 1 && c.position == 0, third = c.depth == 1 && c.position == 2 && node.positional >= 3;
    const std::span<const BoundaryStep> steps = first   ? (own.fast ? program.fast_input : program.input)
                                                : third ? program.second
                                                        : std::span<const BoundaryStep>{};
    const bool dtensor_on_fast_path = own.fast && layout_of(walk, slot).is_dtensor && first;
    for (const BoundaryStep& step : dtensor_on_fast_path ? program.input : steps) {
      slot = run_step(walk, step, slot, frame, false);
      if (walk.crash != kNoId) return;
    }
    if (dtensor_on_fast_path) slot = to_local(walk, slot, false, frame.rule);
    bind(walk, c.to, slot);
  }
  if (program.sums_params && records_gradients(walk)) {
    const Module& module = walk.model.modules[frame.module];
    for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id) {
      const ValueId value = walk.value_of_param[id];
      if (value != kNoId) walk.sum_rule[value] = frame.rule;
    }
  }
  if (program.local_params || own.fast) see_params_locally(walk, own);
}

void exit_module(Walk& walk, const GraphNode& node) {
  const ModuleFrame frame = walk.frames.back();
  for (auto hidden = frame.hidden.rbegin(); hidden != frame.hidden.rend(); ++hidden)
    bind(walk, hidden->first, hidden->second);
  const auto crossings =
      std::span(walk.graph.crossings).subspan(node.crossing_begin, node.crossing_end - node.crossing_begin);
  for (const Crossing& c : crossings) {
    SlotId slot = walk.slot_of[c.from];
    if (frame.program != nullptr && c.depth > 0 && frame.program->output_is_one) {
      crash_at(
          walk, Code::TP5105,
          fmt::format("{} takes one tensor as result, and the module returns several", style_name(walk, frame.rule)),
          frame.rule);
      return;
    }
    if (frame.program != nullptr && c.depth == 0) {
      const bool is_dtensor = layout_of(walk, slot).is_dtensor;
      for (const BoundaryStep& step : frame.fast && !is_dtensor ? frame.program->fast_output : frame.program->output) {
        slot = run_step(walk, step, slot, frame, true);
        if (walk.crash != kNoId) return;
      }
      if (frame.bias != kNoId) {
        Spread layout = layout_of(walk, slot);
        const Spread& bias = layout_of(walk, frame.bias);
        if (!is_all_whole(walk.table, bias)) {
          crash_at(walk, Code::TP5102,
                   fmt::format("{} adds a piece of the bias to the whole result", style_name(walk, frame.rule)),
                   frame.rule, walk.slots[frame.bias].origin);
          return;
        }
      }
    }
    bind(walk, c.to, slot);
  }
  walk.frames.pop_back();
}

}  // namespace tpplan
