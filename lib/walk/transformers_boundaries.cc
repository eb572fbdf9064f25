// Styles at the boundaries of modules as transformers 5.23 runs them, by their rows in style_programs.cc.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "walk/causes.h"
#include "walk/dispatch.h"
#include "walk/from_local.h"
#include "walk/slots.h"
#include "walk/steps.h"
#include "walk/walk_state.h"

namespace tpplan {
namespace {

std::span<const Crossing> crossings_into(const Walk& walk, const GraphNode& node) {
  return std::span(walk.graph.crossings).subspan(node.crossing_begin, node.crossing_end - node.crossing_begin);
}

// On the fast path of a row-wise Linear the module runs without its bias, and the sum adds it.
void hide_bias(Walk& walk, ModuleFrame& frame, ValueId value) {
  const SlotId whole = walk.slot_of[value];
  frame.bias = to_local(walk, whole, 0, frame.rule);
  Spread none = whole_layout(walk.table, shape_of(walk, whole));
  none.zero = true;
  for (MapId& dim : none.dims) dim = any_map(walk.table.maps, 1, std::vector<int64_t>(walk.ranks, 1));
  frame.hidden.emplace_back(value, whole);
  Slot slot = walk.slots[whole];
  slot.layout = intern(walk.table, none);
  set_slot(walk, value, new_slot(walk, slot));
}

// _use_local_dtensor_params, distributed/parallel_utils.py: for the time of a forward.
void see_params_locally(Walk& walk, ModuleFrame& frame) {
  const Module& module = walk.model.modules[frame.module];
  for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id) {
    const ValueId value = walk.value_of_param[id];
    if (value == kNoId) continue;
    const SlotId whole = walk.slot_of[value];
    if (frame.fast && frame.program->fast->hides_bias && walk.model.params[id].name == "bias") {
      hide_bias(walk, frame, value);
    } else if (layout_of(walk, whole).is_dtensor) {
      frame.hidden.emplace_back(value, whole);
      set_slot(
          walk, value,
          frame.program->deals_experts ? join_experts(walk, whole, frame.rule) : to_local(walk, whole, 0, frame.rule));
    }
  }
}

// False where the style's hook would raise an error: it asks for args[0], and expects a tensor there.
bool check_call(Walk& walk, const GraphNode& node, const ModuleFrame& frame) {
  if (!frame.program->call.takes_first) return true;
  const auto crossings = crossings_into(walk, node);
  const bool has_first = std::any_of(crossings.begin(), crossings.end(),
                                     [](const Crossing& c) { return c.position == 0 && c.depth == 1; });
  if (node.positional > 0 && has_first) return true;
  const std::string style = style_name(walk, frame.rule);
  crash_at(
      walk, Code::TP5105,
      node.positional == 0
          ? fmt::format("{} takes the first positional argument, and the module is called with keywords only", style)
          : fmt::format("{} takes a tensor as first argument, and the module gets something else", style),
      frame.rule);
  return false;
}

SlotId run_steps(Walk& walk, std::span<const BoundaryStep> steps, SlotId slot, const ModuleFrame& frame, bool output) {
  for (const BoundaryStep& step : steps) {
    slot = run_step(walk, step.kind, step.placements, slot, frame.module, frame.rule, output);
    if (walk.crash != kNoId) break;
  }
  return slot;
}

// What the module sees of one argument.
SlotId take_argument(Walk& walk, const GraphNode& node, const Crossing& c, SlotId slot, const ModuleFrame& frame) {
  const StyleProgram& program = *frame.program;
  if (program.deals_experts && c.depth == 1) return dispatch_tokens(walk, slot, frame.rule);
  if (c.depth == 1 && c.position == 2 && node.positional >= 3)
    return run_steps(walk, program.second, slot, frame, false);
  if (c.depth != 1 || c.position != 0) return slot;
  if (!frame.fast) return run_steps(walk, program.input, slot, frame, false);
  if (!layout_of(walk, slot).is_dtensor) return run_steps(walk, program.fast->input, slot, frame, false);
  // A DTensor is brought to the style's layout on the fast path too, and is taken apart then.
  slot = run_steps(walk, program.input, slot, frame, false);
  return walk.crash == kNoId ? to_local(walk, slot, 0, frame.rule) : slot;
}

// What becomes of the result, where it is one tensor.
SlotId leave_result(Walk& walk, SlotId slot, const ModuleFrame& frame) {
  const bool fast = frame.fast && !layout_of(walk, slot).is_dtensor;
  slot = run_steps(walk, fast ? frame.program->fast->output : frame.program->output, slot, frame, true);
  if (walk.crash == kNoId && frame.program->deals_experts) slot = combine_tokens(walk, slot, frame);
  if (walk.crash == kNoId && frame.bias != kNoId && !is_all_whole(walk.table, layout_of(walk, frame.bias)))
    crash_at(walk, Code::TP5102,
             fmt::format("{} adds a piece of the bias to the whole result", style_name(walk, frame.rule)), frame.rule,
             walk.slots[frame.bias].origin);
  return slot;
}

}  // namespace

void enter_transformers_module(Walk& walk, const GraphNode& node) {
  ModuleFrame frame{.module = walk.model_tables.module_of_string[node.name]};
  frame.rule = walk.rule_of_module[frame.module];
  frame.no_grad = node.no_grad || (!walk.frames.empty() && walk.frames.back().no_grad);
  const StyleRow* style = frame.rule == kNoRule ? nullptr : walk.plan.rules[frame.rule].style;
  if (style != nullptr) frame.program = find_transformers_program(style->name);
  walk.frames.push_back(frame);
  ModuleFrame& own = walk.frames.back();
  const Module& module = walk.model.modules[frame.module];
  const auto crossings = crossings_into(walk, node);
  if (frame.program == nullptr) {
    for (const Crossing& c : crossings) set_slot(walk, c.to, walk.slot_of[c.from]);
    return;
  }
  own.fast = frame.program->fast != nullptr && !records_gradients(walk) && module.kind == ModuleKind::Linear;
  if (!check_call(walk, node, own)) return;
  if (frame.program->deals_experts && !check_experts(walk, frame.module, frame.rule)) return;
  for (const Crossing& c : crossings) {
    // A value that enters twice is the one outside, whatever the style made of its first place.
    ValueId outside = c.from;
    for (const Crossing& b : crossings) {
      if (b.to == outside) outside = b.from;
    }
    const SlotId slot = take_argument(walk, node, c, walk.slot_of[outside], own);
    if (walk.crash != kNoId) return;
    if (frame.program->deals_experts && is_chosen(c)) own.chosen = slot;
    set_slot(walk, c.to, slot);
  }
  if (frame.program->sums_params && records_gradients(walk)) {
    for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id) {
      const ValueId value = walk.value_of_param[id];
      if (value != kNoId) walk.sum_rule[value] = frame.rule;
    }
  }
  // Parameters become local when the forward begins, after the inputs were prepared.
  if (frame.program->local_params || own.fast) see_params_locally(walk, own);
}

void exit_transformers_module(Walk& walk, const GraphNode& node) {
  const ModuleFrame frame = walk.frames.back();
  show_hidden(walk, frame);
  for (const Crossing& c : crossings_into(walk, node)) {
    SlotId slot = walk.slot_of[c.from];
    if (frame.program != nullptr && c.depth > 0 && frame.program->call.output_is_one)
      return crash_at(
          walk, Code::TP5105,
          fmt::format("{} takes one tensor as result, and the module returns several", style_name(walk, frame.rule)),
          frame.rule);
    if (frame.program != nullptr && c.depth == 0) slot = leave_result(walk, slot, frame);
    if (walk.crash != kNoId) return;
    set_slot(walk, c.to, slot);
  }
  walk.frames.pop_back();
}

}  // namespace tpplan
