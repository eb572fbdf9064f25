// Modules and operations as our own runtime runs them (tools/python/tpplan/torch): boundaries by the manifest's
// layouts, parameters through views, plain tensors among DTensors as whole ones. Its files are named where a rule is
// from.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>

#include "infer/grad_reduce.h"
#include "walk/causes.h"
#include "walk/data_axes.h"
#include "walk/dispatch.h"
#include "walk/from_local.h"
#include "walk/node_args.h"
#include "walk/op_types.h"
#include "walk/param_layouts.h"
#include "walk/redistribute_slot.h"
#include "walk/report_cause.h"
#include "walk/slots.h"
#include "walk/steps.h"
#include "walk/tape.h"
#include "walk/walk_state.h"

namespace tpplan {
namespace {

// Whether the model axes cut it.
bool is_cut(const Walk& walk, ParamId id) {
  return std::any_of(walk.axes.begin(), walk.axes.end(),
                     [&](AxisId axis) { return uses_axis(sharding_of(walk.shardings, id).spec, axis); });
}

bool has_dtensor(const Walk& walk, std::span<const SlotId> slots) {
  return std::any_of(slots.begin(), slots.end(), [&](SlotId slot) { return layout_of(walk, slot).is_dtensor; });
}

SlotId become_whole(Walk& walk, SlotId slot) {
  return run_step(walk, StepKind::FromLocal, whole_claim(walk), slot, module_at(walk), walk.slots[slot].origin, false);
}

// views.py: a parameter as a plain tensor, whose gradient is summed as grad_reduce says, or as a DTensor, where torch
// sums what it finds to be open.
SlotId view_of(Walk& walk, SlotId slot, bool plain) {
  const ParamId id = walk.slots[slot].held;
  const Sharding& sharding = sharding_of(walk.shardings, id);
  const RuleId rule = walk.shardings.params[id].rule;
  SlotId view = derived(walk, slot, layout_of(walk, slot), kNoRule);
  walk.slots[view].held = kNone;
  ParamCalls calls = data_calls(walk, id);
  // The identity on the tape: a view of its own.
  const bool shared = !calls.forward.empty() || !calls.backward.empty();
  if (!calls.forward.empty()) walk.slots[view].memory = SlotMemory::Gathered;
  list_calls(walk, std::move(calls.forward), module_at(walk));
  if (plain || shared) record_step(walk, TapeKind::View, slot, view, {}, rule);
  if (plain) {
    const StyleRow* style = rule == kNoRule ? nullptr : walk.plan.rules[rule].style;
    if (style != nullptr && style->name == "mla_kv_a_proj") return view;
    for (const GradReduce& sum : grad_reduce_of(walk.plan, sharding, rule, walk.runtime.runtime)) {
      const auto axis = std::find(walk.axes.begin(), walk.axes.end(), sum.axis);
      if (axis != walk.axes.end() && !uses_axis(sharding.spec, sum.axis))
        view = sum_gradient(walk, view, static_cast<size_t>(axis - walk.axes.begin()), rule);
    }
    return view;
  }
  Spread layout = layout_of(walk, view);
  RuleId ignored = kNoRule;
  layout.is_dtensor = true;
  layout.claim = param_layout(walk, id, ignored).claim;
  if (layout.claim.empty()) layout.claim = whole_claim(walk);
  const auto shape = shape_of(walk, slot);
  layout.claimed_shape.assign(shape.begin(), shape.end());
  const bool fused = [&] {
    for (size_t dim = 0; dim < sharding.spec.size(); ++dim) {
      if (segments_of(sharding, dim).size() > 1 && !is_whole(walk.table.maps, layout.dims[dim])) return true;
    }
    return false;
  }();
  if (fused) {
    crash_at(walk, Code::TP5104,
             fmt::format("`{}` is cut segment by segment, and is used where DTensors are",
                         path_of(walk.model, walk.model.params[id])),
             rule);
    return slot;
  }
  const SlotId seen = shared ? view : slot;
  if (shared) view = derived(walk, view, layout_of(walk, view), kNoRule);
  walk.slots[view].layout = intern(walk.table, layout);
  record_step(walk, TapeKind::FromLocal, seen, view, layout.claim, rule);
  return view;
}

std::span<const Crossing> crossings_of(const Walk& walk, const GraphNode& node) {
  return std::span(walk.graph.crossings).subspan(node.crossing_begin, node.crossing_end - node.crossing_begin);
}

// boundaries.py, _locate: by position, or by the name that stands for it. kNoId where the call does not give it.
uint32_t find_argument(std::span<const Crossing> crossings, const ValueProgram& value) {
  for (uint32_t i = 0; i < crossings.size(); ++i) {
    const Crossing& c = crossings[i];
    const bool found =
        value.key.empty() ? c.position == value.position || c.parameter == value.position : c.key == value.key;
    if (c.depth == 1 && found) return i;
  }
  return kNoId;
}

SlotId run_steps(Walk& walk, const ValueProgram& value, SlotId slot, ModuleId module, bool output) {
  for (const LayoutStep& step : value.steps) {
    slot = run_step(walk, step.kind, step.placements, slot, module, value.rule, output, step.sent);
    if (walk.crash != kNoId) break;
  }
  return slot;
}

// views.py: the module's own parameters as they are shown for the time of its forward; those that no operation uses,
// too. A bias that the module runs without, and that is added to the result, is seen before the others.
void show_own_params(Walk& walk, ModuleFrame& frame, bool plain) {
  const Module& module = walk.model.modules[frame.module];
  const auto comes_late = [&](ParamId id) {
    return frame.steps->adds_bias_late && walk.model.params[id].name == "bias" && walk.value_of_param[id] != kNoId;
  };
  std::vector<ParamId> params(module.param_count);
  std::iota(params.begin(), params.end(), module.first_param);
  std::stable_partition(params.begin(), params.end(), comes_late);
  for (const ParamId id : params) {
    const ValueId value = walk.value_of_param[id];
    if (value == kNoId) {
      list_calls(walk, data_calls(walk, id).forward, module_at(walk));
      continue;
    }
    const SlotId held = walk.slot_of[value];
    if (walk.slots[held].held == kNone) continue;  // shown already: another name of it, in a module around this one
    frame.hidden.emplace_back(value, held);
    if (comes_late(id)) {
      frame.bias = view_of(walk, held, true);
      Spread none = whole_layout(walk.table, shape_of(walk, held));
      none.zero = true;
      for (MapId& dim : none.dims) dim = any_map(walk.table.maps, 1, std::vector<int64_t>(walk.ranks, 1));
      Slot slot = walk.slots[held];
      slot.held = kNone;
      slot.requires_grad = false;
      slot.layout = intern(walk.table, none);
      set_slot(walk, value, new_slot(walk, slot));
      continue;
    }
    const SlotId shown = view_of(walk, held, plain);
    set_slot(walk, value, frame.steps->deals_experts ? join_experts(walk, shown, frame.rule) : shown);
    if (walk.crash != kNoId) return;
  }
}

SlotId add_bias(Walk& walk, SlotId result, const ModuleFrame& frame) {
  SlotId bias = frame.bias;
  if (layout_of(walk, result).is_dtensor) bias = become_whole(walk, bias);
  if (!is_all_whole(walk.table, layout_of(walk, bias))) {
    crash_at(walk, Code::TP5102, "adds a piece of the bias to the whole result", frame.rule, walk.slots[bias].origin);
    return result;
  }
  const SlotId out = derived(walk, result, layout_of(walk, result), kNoRule);
  walk.slots[out].memory = SlotMemory::Copy;
  walk.slots[out].requires_grad =
      (walk.slots[result].requires_grad || walk.slots[bias].requires_grad) && records_gradients(walk);
  if (!walk.slots[out].requires_grad) return out;
  const auto slot = [&](SlotId id) { return TapeSlot{id, walk.slots[id].layout}; };
  const TapeSlot ins[] = {slot(result), slot(bias)}, outs[] = {slot(out)};
  add_to_tape(walk, {.kind = TapeKind::AddBias, .module = frame.module, .rule = frame.rule}, ins, outs);
  return out;
}

// boundaries.py, prepare_output: the part of the result that a boundary names; kNoId where it is no tensor.
uint32_t find_result(Walk& walk, std::span<const Crossing> crossings, const ValueProgram& value) {
  for (uint32_t i = 0; i < crossings.size(); ++i) {
    const Crossing& c = crossings[i];
    if (c.depth == 0) {
      if (value.position == 0) return i;
      crash_at(walk, Code::TP5105,
               fmt::format("the module has one output, and its boundary names output {}", value.position), value.rule);
      return kNoId;
    }
    if (c.depth == 1 && c.position == value.position) return i;
    if (!c.key.empty()) {
      crash_at(walk, Code::TP5105, "the module returns no tensor and no tuple", value.rule);
      return kNoId;
    }
  }
  return kNoId;
}

}  // namespace

bool prepare_tpplan_run(Walk& walk) {
  // boundaries.py: without a model axis nothing happens where modules begin and end.
  if (walk.axes.empty()) {
    walk.programs = {.list = std::vector<ModuleProgram>(1), .of_module = {}};
    walk.programs.of_module.resize(walk.model.modules.size());
    return true;
  }
  walk.programs = build_tpplan_programs(walk.plan, walk.model, walk.boundaries, walk.shardings, walk.axes);
  for (ModuleId id = 0; id < walk.programs.of_module.size(); ++id) {
    const ModuleProgram& program = walk.programs.list[walk.programs.of_module[id]];
    if (program.refused.empty()) continue;
    report_cause(walk,
                 {.code = Code::TP5105,
                  .reason = std::string(program.refused),
                  .op = {},
                  .module = id,
                  .rule = program.rule,
                  .layouts = {}},
                 "apply");
  }
  return std::all_of(walk.programs.list.begin(), walk.programs.list.end(),
                     [](const ModuleProgram& program) { return program.refused.empty(); });
}

void enter_tpplan_module(Walk& walk, const GraphNode& node) {
  ModuleFrame frame{.module = walk.model_tables.module_of_string[node.name]};
  frame.no_grad = node.no_grad || (!walk.frames.empty() && walk.frames.back().no_grad);
  const auto crossings = crossings_of(walk, node);
  std::vector<SlotId> given;
  for (const Crossing& c : crossings) {
    // A value that enters twice is the one outside, whatever was made of its first place.
    ValueId outside = c.from;
    for (const Crossing& b : crossings) {
      if (b.to == outside) outside = b.from;
    }
    given.push_back(walk.slot_of[outside]);
  }
  if (frame.module == kNone) {
    walk.frames.push_back(frame);
    for (size_t i = 0; i < given.size(); ++i) set_slot(walk, crossings[i].to, given[i]);
    return;
  }
  const ModuleProgram& program = walk.programs.list[walk.programs.of_module[frame.module]];
  frame.rule = program.rule;
  frame.steps = &program;
  walk.frames.push_back(frame);
  for (const ValueProgram& value : program.inputs) {
    const uint32_t at = find_argument(crossings, value);
    if (at != kNoId) given[at] = run_steps(walk, value, given[at], frame.module, false);
    if (walk.crash != kNoId) return;
  }
  if (program.deals_experts && !check_experts(walk, frame.module, frame.rule)) return;
  for (size_t i = 0; program.deals_experts && i < given.size(); ++i) {
    if (crossings[i].depth == 1) given[i] = dispatch_tokens(walk, given[i], frame.rule);
    if (walk.crash != kNoId) return;
  }
  walk.frames.back().retyped = retyped_of(walk, given);
  // modules.py, _how: whether it computes with plain tensors, and whether its plain inputs must become DTensors first.
  ModuleFrame& own = walk.frames.back();
  bool plain = program.runs_locally || !program.has_params;
  if (!plain && !has_dtensor(walk, given)) {
    const Module& module = walk.model.modules[frame.module];
    plain = true;
    for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id)
      plain = plain && !is_cut(walk, id);
    own.spreads = !plain;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (own.spreads) given[i] = become_whole(walk, given[i]);
    set_slot(walk, crossings[i].to, given[i]);
  }
  show_own_params(walk, own, plain);
}

void exit_tpplan_module(Walk& walk, const GraphNode& node) {
  const ModuleFrame frame = walk.frames.back();
  show_hidden(walk, frame);
  const auto crossings = crossings_of(walk, node);
  std::vector<SlotId> given;
  for (const Crossing& c : crossings) given.push_back(walk.slot_of[c.from]);
  if (frame.steps != nullptr && frame.steps->deals_experts && !given.empty())
    given[0] = combine_tokens(walk, given[0], frame);
  for (size_t i = 0; frame.steps != nullptr && i < frame.steps->outputs.size(); ++i) {
    const ValueProgram& value = frame.steps->outputs[i];
    const uint32_t at = find_result(walk, crossings, value);
    if (at != kNoId) given[at] = run_steps(walk, value, given[at], frame.module, true);
    if (walk.crash != kNoId) return;
  }
  if (frame.bias != kNoId && !given.empty()) given[0] = add_bias(walk, given[0], frame);
  for (size_t i = 0; i < given.size() && walk.crash == kNoId; ++i) {
    const bool gathers = frame.spreads && frame.steps->outputs.empty() && layout_of(walk, given[i]).is_dtensor;
    if (gathers) given[i] = to_local(walk, redistribute_slot(walk, given[i], whole_claim(walk), true), 0, frame.rule);
    set_slot(walk, crossings[i].to, given[i]);
  }
  if (walk.crash == kNoId) walk.frames.pop_back();
}

void show_tpplan_operands(Walk& walk, const GraphNode& node, Shown& shown) {
  bool dtensors = false, cut = false, held = false;
  each_arg(walk.graph, node, [&](const GraphArg& arg) {
    if (arg.kind != ArgKind::Value) return;
    const Slot& slot = walk.slots[walk.slot_of[arg.id]];
    dtensors = dtensors || layout_of(walk, walk.slot_of[arg.id]).is_dtensor;
    held = held || slot.held != kNone;
    cut = cut || (slot.held != kNone && is_cut(walk, slot.held));
  });
  if (!dtensors && !held) return;
  const std::vector<ValueId> values = values_in(walk, node);
  const auto show = [&](ValueId value, SlotId slot) {
    shown.emplace_back(value, walk.slot_of[value]);
    set_slot(walk, value, slot);
  };
  // mixing.py: parameters that are used outside of their module are seen as their views, and what is plain among
  // DTensors is whole.
  for (const ValueId value : values) {
    if (walk.slots[walk.slot_of[value]].held != kNone && walk.crash == kNoId)
      show(value, view_of(walk, walk.slot_of[value], !dtensors && !cut));
  }
  for (const ValueId value : values) {
    if ((dtensors || cut) && !layout_of(walk, walk.slot_of[value]).is_dtensor && walk.crash == kNoId)
      show(value, become_whole(walk, walk.slot_of[value]));
  }
}

}  // namespace tpplan
