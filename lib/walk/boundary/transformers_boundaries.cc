// Styles at module boundaries as transformers 5.23 runs them, by their rows in styles/style_table.cc.
#include "walk/boundary/transformers_boundaries.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "walk/boundary/steps.h"
#include "walk/run/dispatch.h"
#include "walk/run/from_local.h"
#include "walk/state/boundary_slots.h"
#include "walk/state/causes.h"
#include "walk/state/slots.h"
#include "walk/state/walk_state.h"

namespace tpplan {
namespace {

// Replaces the bias by zeros on the fast path of a rowwise Linear, where it is added after the sum.
void hide_bias(Walk& walk, ModuleFrame& frame, ValueId value) {
  const SlotId outside = walk.memory.slot_of[value];
  frame.bias = to_local(walk, outside, 0, frame.rule);
  ValueLayout zeros = replicated_layout(walk.memory.table, shape_of(walk, outside));
  zeros.zero = true;
  for (DimLayoutId& dim : zeros.dims)
    dim = unknown_dim(walk.memory.table.maps, 1, std::vector<int64_t>(walk.in.ranks, 1));
  frame.hidden.emplace_back(value, outside);
  Slot slot = walk.memory.slots[outside];
  slot.layout = intern(walk.memory.table, zeros);
  set_slot(walk, value, new_slot(walk, slot));
}

// Replaces DTensor parameters by their local shards during a forward (_use_local_dtensor_params,
// distributed/parallel_utils.py).
void see_params_locally(Walk& walk, ModuleFrame& frame) {
  const Module& module = walk.in.model.modules[frame.module];
  for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id) {
    const ValueId value = walk.memory.value_of_param[id];
    if (value == kNoId) continue;
    const SlotId outside = walk.memory.slot_of[value];
    if (frame.fast && frame.program->fast->hides_bias && walk.in.model.params[id].name == "bias") {
      hide_bias(walk, frame, value);
    } else if (layout_of(walk, outside).is_dtensor) {
      frame.hidden.emplace_back(value, outside);
      set_slot(walk, value,
               frame.program->dispatches_experts ? gather_expert_param(walk, outside, frame.rule)
                                                 : to_local(walk, outside, 0, frame.rule));
    }
  }
}

// Returns false, after a crash, if the style's hook would raise an error because args[0] is no tensor.
bool check_call(Walk& walk, const GraphNode& node, const ModuleFrame& frame) {
  if (!frame.program->call.takes_first) return true;
  const auto crossings = crossings_of(walk.in.graph, node);
  const bool has_first = std::any_of(crossings.begin(), crossings.end(),
                                     [](const Crossing& c) { return c.position == 0 && c.depth == 1; });
  if (node.positional > 0 && has_first) return true;
  const std::string style = style_name(walk, frame.rule);
  crash_at(walk, Code::UnsupportedCall,
           node.positional == 0
               ? fmt::format("{} expects a positional argument, but the module is called with keywords only", style)
               : fmt::format("{} expects a tensor as first argument, but the module gets something else", style),
           frame.rule);
  return false;
}

SlotId run_steps(Walk& walk, Steps steps, SlotId slot, const ModuleFrame& frame, bool output, int arg = 0) {
  const size_t first = walk.memory.tape.size();
  for (const BoundaryStep& step : steps) {
    slot = run_step(walk, step.kind, step.placements, slot, frame.module, frame.rule, output);
    if (walk.out.crash != kNoId) break;
  }
  add_boundary_slot(walk, frame.rule, output, arg, {}, first, slot);
  return slot;
}

// Returns the slot that the module sees for an argument.
SlotId take_argument(Walk& walk, const GraphNode& node, const Crossing& c, SlotId slot, const ModuleFrame& frame) {
  const TransformersSteps& program = *frame.program;
  if (program.dispatches_experts && c.depth == 1) return dispatch_tokens(walk, slot, frame.rule);
  if (c.depth == 1 && c.position == 2 && node.positional >= 3)
    return run_steps(walk, program.second, slot, frame, false, c.position);
  if (c.depth != 1 || c.position != 0) return slot;
  if (!frame.fast) return run_steps(walk, program.input, slot, frame, false);
  if (!layout_of(walk, slot).is_dtensor) return run_steps(walk, program.fast->input, slot, frame, false);
  // On the fast path, a DTensor is redistributed to the style's layout and then converted to its local shard.
  slot = run_steps(walk, program.input, slot, frame, false);
  return walk.out.crash == kNoId ? to_local(walk, slot, 0, frame.rule) : slot;
}

// Returns the slot of a single result after the output steps of the style.
SlotId leave_result(Walk& walk, SlotId slot, const ModuleFrame& frame) {
  const bool fast = frame.fast && !layout_of(walk, slot).is_dtensor;
  slot = run_steps(walk, fast ? frame.program->fast->output : frame.program->output, slot, frame, true);
  if (walk.out.crash == kNoId && frame.program->dispatches_experts) slot = combine_tokens(walk, slot, frame);
  if (walk.out.crash == kNoId && frame.bias != kNoId &&
      !is_all_replicated(walk.memory.table, layout_of(walk, frame.bias)))
    crash_at(walk, Code::OperandSizesDiffer,
             fmt::format("{} adds a sharded bias to the full result", style_name(walk, frame.rule)), frame.rule,
             walk.memory.slots[frame.bias].origin);
  return slot;
}

}  // namespace

void enter_transformers_module(Walk& walk, const GraphNode& node) {
  ModuleFrame frame{.module = walk.in.model_tables.module_of_string[node.name]};
  frame.rule = walk.memory.rule_of_module[frame.module];
  frame.no_grad = node.no_grad || (!walk.memory.frames.empty() && walk.memory.frames.back().no_grad);
  const StyleRow* style = frame.rule == kNoRule ? nullptr : walk.in.plan.rules[frame.rule].style;
  if (style != nullptr) frame.program = &style->transformers;
  walk.memory.frames.push_back(frame);
  ModuleFrame& frame_of_module = walk.memory.frames.back();
  const Module& module = walk.in.model.modules[frame.module];
  const auto crossings = crossings_of(walk.in.graph, node);
  if (frame.program == nullptr) {
    for (const Crossing& c : crossings) set_slot(walk, c.to, walk.memory.slot_of[c.from]);
    return;
  }
  frame_of_module.fast = frame.program->fast != nullptr && !is_grad_enabled(walk) && module.kind == ModuleKind::Linear;
  if (!check_call(walk, node, frame_of_module)) return;
  if (frame.program->dispatches_experts && !check_experts(walk, frame.module, frame.rule)) return;
  for (const Crossing& c : crossings) {
    // If a value is passed twice, `from` of the second crossing is the inner value of the first: use the outer value.
    ValueId outside = c.from;
    for (const Crossing& b : crossings) {
      if (b.to == outside) outside = b.from;
    }
    const SlotId slot = take_argument(walk, node, c, walk.memory.slot_of[outside], frame_of_module);
    if (walk.out.crash != kNoId) return;
    if (frame.program->dispatches_experts && is_expert_ids(c)) frame_of_module.chosen = slot;
    set_slot(walk, c.to, slot);
  }
  if (frame.program->sums_params && is_grad_enabled(walk)) {
    for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id) {
      const ValueId value = walk.memory.value_of_param[id];
      if (value != kNoId) walk.memory.sum_rule[value] = frame.rule;
    }
  }
  // Parameters become local at the start of the forward, after the hooks have changed the inputs.
  if (frame.program->local_params || frame_of_module.fast) see_params_locally(walk, frame_of_module);
}

void exit_transformers_module(Walk& walk, const GraphNode& node) {
  const ModuleFrame frame = walk.memory.frames.back();
  restore_replaced_slots(walk, frame);
  for (const Crossing& c : crossings_of(walk.in.graph, node)) {
    SlotId slot = walk.memory.slot_of[c.from];
    if (frame.program != nullptr && c.depth > 0 && frame.program->call.output_is_one)
      return crash_at(
          walk, Code::UnsupportedCall,
          fmt::format("{} expects one tensor as result, but the module returns several", style_name(walk, frame.rule)),
          frame.rule);
    if (frame.program != nullptr && c.depth == 0) slot = leave_result(walk, slot, frame);
    if (walk.out.crash != kNoId) return;
    set_slot(walk, c.to, slot);
  }
  walk.memory.frames.pop_back();
}

}  // namespace tpplan
