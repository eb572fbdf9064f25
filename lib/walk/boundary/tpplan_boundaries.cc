// Modules and operations in tpplan's runtime (tools/python/tpplan/torch): boundaries with the manifest's layouts,
// parameters through views, and plain operands next to DTensors as replicated DTensors. Comments name the Python file
// that they describe.
#include "walk/boundary/tpplan_boundaries.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>

#include "resolve/infer/grad_reduce.h"
#include "walk/boundary/steps.h"
#include "walk/boundary/tpplan_programs.h"
#include "walk/operation/op_types.h"
#include "walk/report/report_cause.h"
#include "walk/run/data_axes.h"
#include "walk/run/dispatch.h"
#include "walk/run/from_local.h"
#include "walk/run/redistribute_slot.h"
#include "walk/state/boundary_slots.h"
#include "walk/state/causes.h"
#include "walk/state/node_args.h"
#include "walk/state/param_layouts.h"
#include "walk/state/slots.h"
#include "walk/state/tape.h"
#include "walk/state/walk_state.h"

namespace tpplan {
namespace {

// True if a walked axis shards the parameter.
bool is_sharded_dim(const Walk& walk, ParamId id) {
  return std::any_of(walk.in.axes.begin(), walk.in.axes.end(),
                     [&](AxisId axis) { return uses_axis(sharding_of(walk.in.shardings, id).spec, axis); });
}

bool has_dtensor(const Walk& walk, std::span<const SlotId> slots) {
  return std::any_of(slots.begin(), slots.end(), [&](SlotId slot) { return layout_of(walk, slot).is_dtensor; });
}

SlotId gather_replicated(Walk& walk, SlotId slot) {
  return run_step(walk, StepKind::FromLocal, replicated_placements(walk), slot, current_module(walk),
                  walk.memory.slots[slot].origin, false);
}

// views.py: returns the view of a parameter. A plain view has its gradient summed as grad_reduce specifies; for a
// DTensor torch reduces pending sums.
SlotId view_of(Walk& walk, SlotId slot, bool plain) {
  const ParamId id = walk.memory.slots[slot].held;
  const Sharding& sharding = sharding_of(walk.in.shardings, id);
  const RuleId rule = walk.in.shardings.params[id].rule;
  SlotId view = derive_slot(walk, slot, layout_of(walk, slot), kNoRule);
  walk.memory.slots[view].held = kNone;
  ParamCalls calls = data_calls(walk, id);
  // If data axes have calls for the parameter, the view is a separate identity on the tape.
  const bool shared = !calls.forward.empty() || !calls.backward.empty();
  if (!calls.forward.empty()) walk.memory.slots[view].memory = SlotMemory::Gathered;
  list_calls(walk, std::move(calls.forward), current_module(walk));
  if (plain || shared) append_step(walk, TapeKind::View, slot, view, {}, rule);
  if (plain) {
    const StyleRow* style = rule == kNoRule ? nullptr : walk.in.plan.rules[rule].style;
    if (style != nullptr && has_step(style->tpplan.output, StepKind::SumTailGradient)) return view;
    for (const GradReduce& sum : grad_reduce_of(walk.in.plan, sharding, rule, walk.in.runtime.runtime)) {
      const auto axis = std::find(walk.in.axes.begin(), walk.in.axes.end(), sum.axis);
      if (axis != walk.in.axes.end() && !uses_axis(sharding.spec, sum.axis))
        view = sum_gradient(walk, view, static_cast<size_t>(axis - walk.in.axes.begin()), rule);
    }
    return view;
  }
  ValueLayout layout = layout_of(walk, view);
  RuleId ignored = kNoRule;
  layout.is_dtensor = true;
  layout.declared = param_layout(walk, id, ignored).declared;
  if (layout.declared.empty()) layout.declared = replicated_placements(walk);
  const auto shape = shape_of(walk, slot);
  layout.declared_shape.assign(shape.begin(), shape.end());
  const bool fused = [&] {
    for (size_t dim = 0; dim < sharding.spec.size(); ++dim) {
      if (segments_of(sharding, dim).size() > 1 && !is_fully_replicated(walk.memory.table.maps, layout.dims[dim]))
        return true;
    }
    return false;
  }();
  if (fused) {
    crash_at(walk, Code::TensorWithDtensor,
             fmt::format("`{}` is sharded per segment, which a DTensor cannot express, but is used with DTensors",
                         path_of(walk.in.model, walk.in.model.params[id])),
             rule);
    return slot;
  }
  const SlotId seen = shared ? view : slot;
  if (shared) view = derive_slot(walk, view, layout_of(walk, view), kNoRule);
  walk.memory.slots[view].layout = intern(walk.memory.table, layout);
  append_step(walk, TapeKind::FromLocal, seen, view, layout.declared, rule);
  return view;
}

// boundaries.py, _locate: returns the crossing of an argument; kNoId if the call does not pass it. The boundary names a
// position, whose argument can also be passed by keyword, or a keyword.
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
  const size_t first = walk.memory.tape.size();
  const RuleOptions& options = walk.in.plan.rules[value.rule].options;
  const bool declares =
      !output && (value.key.empty() ? options.input_layouts.has_value() : options.input_kwarg_layouts.has_value());
  std::optional<OverriddenLayout> overridden;
  if (declares && !value.steps.empty() && value.steps[0].kind == StepKind::FromLocalCounted)
    overridden = overridden_layout(walk, value.rule, value.steps[0].placements, slot);
  for (const LayoutStep& step : value.steps) {
    slot = run_step(walk, step.kind, step.placements, slot, module, value.rule, output, step.sent);
    if (walk.out.crash != kNoId) break;
  }
  add_boundary_slot(walk, value.rule, output, value.position, value.key, first, slot, overridden);
  return slot;
}

// views.py: replaces the module's parameters by views during its forward; unused parameters have calls too. A bias that
// is added to the result later comes first.
void show_local_params(Walk& walk, ModuleFrame& frame, bool plain) {
  const Module& module = walk.in.model.modules[frame.module];
  const auto comes_late = [&](ParamId id) {
    return frame.steps->adds_bias_late && walk.in.model.params[id].name == "bias" &&
           walk.memory.value_of_param[id] != kNoId;
  };
  std::vector<ParamId> params(module.param_count);
  std::iota(params.begin(), params.end(), module.first_param);
  std::stable_partition(params.begin(), params.end(), comes_late);
  for (const ParamId id : params) {
    const ValueId value = walk.memory.value_of_param[id];
    if (value == kNoId) {
      list_calls(walk, data_calls(walk, id).forward, current_module(walk));
      continue;
    }
    const SlotId held = walk.memory.slot_of[value];
    if (walk.memory.slots[held].held == kNone) continue;  // already replaced under another name in an outer module
    frame.hidden.emplace_back(value, held);
    if (comes_late(id)) {
      frame.bias = view_of(walk, held, true);
      ValueLayout zeros = replicated_layout(walk.memory.table, shape_of(walk, held));
      zeros.zero = true;
      for (DimLayoutId& dim : zeros.dims)
        dim = unknown_dim(walk.memory.table.maps, 1, std::vector<int64_t>(walk.in.ranks, 1));
      Slot slot = walk.memory.slots[held];
      slot.held = kNone;
      slot.requires_grad = false;
      slot.layout = intern(walk.memory.table, zeros);
      set_slot(walk, value, new_slot(walk, slot));
      continue;
    }
    const SlotId shown = view_of(walk, held, plain);
    set_slot(walk, value, frame.steps->dispatches_experts ? gather_expert_param(walk, shown, frame.rule) : shown);
    if (walk.out.crash != kNoId) return;
  }
}

SlotId add_bias(Walk& walk, SlotId result, const ModuleFrame& frame) {
  SlotId bias = frame.bias;
  if (layout_of(walk, result).is_dtensor) bias = gather_replicated(walk, bias);
  if (!is_all_replicated(walk.memory.table, layout_of(walk, bias))) {
    crash_at(walk, Code::OperandSizesDiffer, "the layer adds a sharded bias to the full result", frame.rule,
             walk.memory.slots[bias].origin);
    return result;
  }
  const SlotId out = derive_slot(walk, result, layout_of(walk, result), kNoRule);
  walk.memory.slots[out].memory = SlotMemory::Copy;
  walk.memory.slots[out].requires_grad =
      (walk.memory.slots[result].requires_grad || walk.memory.slots[bias].requires_grad) && is_grad_enabled(walk);
  if (!walk.memory.slots[out].requires_grad) return out;
  const auto slot = [&](SlotId id) { return TapeSlot{id, walk.memory.slots[id].layout}; };
  const TapeSlot ins[] = {slot(result), slot(bias)}, outs[] = {slot(out)};
  add_to_tape(walk, {.kind = TapeKind::AddBias, .module = frame.module, .rule = frame.rule}, ins, outs);
  return out;
}

// boundaries.py, prepare_output: returns the crossing of the result that a boundary names; kNoId if it is no tensor.
uint32_t find_result(Walk& walk, std::span<const Crossing> crossings, const ValueProgram& value) {
  for (uint32_t i = 0; i < crossings.size(); ++i) {
    const Crossing& c = crossings[i];
    if (c.depth == 0) {
      if (value.position == 0) return i;
      crash_at(walk, Code::UnsupportedCall,
               fmt::format("the module has one output, but its boundary names output {}", value.position), value.rule);
      return kNoId;
    }
    if (c.depth == 1 && c.position == value.position) return i;
    if (!c.key.empty()) {
      crash_at(walk, Code::UnsupportedCall, "the module returns neither a tensor nor a tuple", value.rule);
      return kNoId;
    }
  }
  return kNoId;
}

}  // namespace

bool prepare_tpplan_run(Walk& walk) {
  // boundaries.py: without a model axis, module boundaries do nothing.
  if (walk.in.axes.empty()) {
    walk.memory.programs = {.list = std::vector<ModuleProgram>(1), .of_module = {}};
    walk.memory.programs.of_module.resize(walk.in.model.modules.size());
    return true;
  }
  walk.memory.programs =
      build_tpplan_programs(walk.in.plan, walk.in.model, walk.in.boundaries, walk.in.shardings, walk.in.axes);
  for (ModuleId id = 0; id < walk.memory.programs.of_module.size(); ++id) {
    const ModuleProgram& program = walk.memory.programs.list[walk.memory.programs.of_module[id]];
    if (program.rejected.empty()) continue;
    report_cause(walk,
                 {.code = Code::UnsupportedCall,
                  .reason = std::string(program.rejected),
                  .op = {},
                  .module = id,
                  .rule = program.rule,
                  .layouts = {}},
                 FirstFailure::Apply);
  }
  return std::all_of(walk.memory.programs.list.begin(), walk.memory.programs.list.end(),
                     [](const ModuleProgram& program) { return program.rejected.empty(); });
}

void enter_tpplan_module(Walk& walk, const GraphNode& node) {
  ModuleFrame frame{.module = walk.in.model_tables.module_of_string[node.name]};
  frame.no_grad = node.no_grad || (!walk.memory.frames.empty() && walk.memory.frames.back().no_grad);
  const auto crossings = crossings_of(walk.in.graph, node);
  std::vector<SlotId> given;
  for (const Crossing& c : crossings) {
    // If a value is passed twice, `from` of the second crossing is the inner value of the first: use the outer value.
    ValueId outside = c.from;
    for (const Crossing& b : crossings) {
      if (b.to == outside) outside = b.from;
    }
    given.push_back(walk.memory.slot_of[outside]);
  }
  if (frame.module == kNone) {
    walk.memory.frames.push_back(frame);
    for (size_t i = 0; i < given.size(); ++i) set_slot(walk, crossings[i].to, given[i]);
    return;
  }
  const ModuleProgram& program = walk.memory.programs.list[walk.memory.programs.of_module[frame.module]];
  frame.rule = program.rule;
  frame.steps = &program;
  walk.memory.frames.push_back(frame);
  for (const ValueProgram& value : program.inputs) {
    const uint32_t at = find_argument(crossings, value);
    if (at != kNoId) given[at] = run_steps(walk, value, given[at], frame.module, false);
    if (walk.out.crash != kNoId) return;
  }
  if (program.dispatches_experts && !check_experts(walk, frame.module, frame.rule)) return;
  for (size_t i = 0; program.dispatches_experts && i < given.size(); ++i) {
    if (crossings[i].depth == 1) given[i] = dispatch_tokens(walk, given[i], frame.rule);
    if (walk.out.crash != kNoId) return;
  }
  walk.memory.frames.back().retyped = retyped_of(walk, given);
  // modules.py, _how: whether the module computes with plain tensors, and whether its plain inputs become DTensors
  // first.
  ModuleFrame& frame_of_module = walk.memory.frames.back();
  bool plain = program.runs_locally || !program.has_params;
  if (!plain && !has_dtensor(walk, given)) {
    const Module& module = walk.in.model.modules[frame.module];
    plain = true;
    for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id)
      plain = plain && !is_sharded_dim(walk, id);
    frame_of_module.wraps_plain_inputs = !plain;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (frame_of_module.wraps_plain_inputs) given[i] = gather_replicated(walk, given[i]);
    set_slot(walk, crossings[i].to, given[i]);
  }
  show_local_params(walk, frame_of_module, plain);
}

void exit_tpplan_module(Walk& walk, const GraphNode& node) {
  const ModuleFrame frame = walk.memory.frames.back();
  restore_replaced_slots(walk, frame);
  const auto crossings = crossings_of(walk.in.graph, node);
  std::vector<SlotId> given;
  for (const Crossing& c : crossings) given.push_back(walk.memory.slot_of[c.from]);
  if (frame.steps != nullptr && frame.steps->dispatches_experts && !given.empty())
    given[0] = combine_tokens(walk, given[0], frame);
  for (size_t i = 0; frame.steps != nullptr && i < frame.steps->outputs.size(); ++i) {
    const ValueProgram& value = frame.steps->outputs[i];
    const uint32_t at = find_result(walk, crossings, value);
    if (at != kNoId) given[at] = run_steps(walk, value, given[at], frame.module, true);
    if (walk.out.crash != kNoId) return;
  }
  if (frame.bias != kNoId && !given.empty()) given[0] = add_bias(walk, given[0], frame);
  for (size_t i = 0; i < given.size() && walk.out.crash == kNoId; ++i) {
    const bool gathers =
        frame.wraps_plain_inputs && frame.steps->outputs.empty() && layout_of(walk, given[i]).is_dtensor;
    if (gathers)
      given[i] = to_local(walk, redistribute_slot(walk, given[i], replicated_placements(walk), true), 0, frame.rule);
    set_slot(walk, crossings[i].to, given[i]);
  }
  if (walk.out.crash == kNoId) walk.memory.frames.pop_back();
}

void replace_tpplan_operands(Walk& walk, const GraphNode& node, ReplacedSlots& shown) {
  bool dtensors = false, has_shard = false, held = false;
  each_arg(walk.in.graph, node, [&](const GraphArg& arg) {
    if (arg.kind != ArgKind::Value) return;
    const Slot& slot = walk.memory.slots[walk.memory.slot_of[arg.id]];
    dtensors = dtensors || layout_of(walk, walk.memory.slot_of[arg.id]).is_dtensor;
    held = held || slot.held != kNone;
    has_shard = has_shard || (slot.held != kNone && is_sharded_dim(walk, slot.held));
  });
  if (!dtensors && !held) return;
  const std::vector<ValueId> values = input_values(walk, node);
  const auto show = [&](ValueId value, SlotId slot) {
    shown.emplace_back(value, walk.memory.slot_of[value]);
    set_slot(walk, value, slot);
  };
  // mixing.py: parameters used outside their module become views, and plain operands next to DTensors become replicated
  // DTensors.
  for (const ValueId value : values) {
    if (walk.memory.slots[walk.memory.slot_of[value]].held != kNone && walk.out.crash == kNoId)
      show(value, view_of(walk, walk.memory.slot_of[value], !dtensors && !has_shard));
  }
  for (const ValueId value : values) {
    if ((dtensors || has_shard) && !layout_of(walk, walk.memory.slot_of[value]).is_dtensor && walk.out.crash == kNoId)
      show(value, gather_replicated(walk, walk.memory.slot_of[value]));
  }
}

}  // namespace tpplan
