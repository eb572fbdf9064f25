// Styles at the boundaries of modules as transformers 5.23 runs them, by their rows in style_programs.cc.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "walk/causes.h"
#include "walk/from_local.h"
#include "walk/slots.h"
#include "walk/steps.h"
#include "walk/walk_state.h"

namespace tpplan {

namespace {

void see_params_locally(Walk& walk, ModuleFrame& frame) {
  const Module& module = walk.model.modules[frame.module];
  for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id) {
    const ValueId value = walk.value_of_param[id];
    if (value == kNoId) continue;
    const SlotId whole = walk.slot_of[value];
    const bool bias = frame.fast && frame.program->fast->hides_bias && walk.model.params[id].name == "bias";
    if (bias) {
      // The module runs without it; the sum adds it.
      frame.bias = to_local(walk, whole, 0, frame.rule);
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
    bind(walk, value, to_local(walk, whole, 0, frame.rule));
  }
}

}  // namespace

void enter_transformers_module(Walk& walk, const GraphNode& node) {
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
  own.fast = program.fast != nullptr && !records_gradients(walk) &&
             walk.model.modules[frame.module].kind == ModuleKind::Linear;
  // Parameters become local when the forward begins, after the inputs were prepared.
  bool has_first = false;
  for (const Crossing& c : crossings) has_first = has_first || (c.position == 0 && c.depth == 1);
  if (program.call.takes_first && (node.positional == 0 || !has_first)) {
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
    const std::span<const BoundaryStep> steps = first   ? (own.fast ? program.fast->input : program.input)
                                                : third ? program.second
                                                        : std::span<const BoundaryStep>{};
    const bool dtensor_on_fast_path = own.fast && layout_of(walk, slot).is_dtensor && first;
    for (const BoundaryStep& step : dtensor_on_fast_path ? program.input : steps) {
      slot = run_step(walk, step.kind, step.placements, slot, frame.module, frame.rule, false);
      if (walk.crash != kNoId) return;
    }
    if (dtensor_on_fast_path) slot = to_local(walk, slot, 0, frame.rule);
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

void exit_transformers_module(Walk& walk, const GraphNode& node) {
  const ModuleFrame frame = walk.frames.back();
  for (auto hidden = frame.hidden.rbegin(); hidden != frame.hidden.rend(); ++hidden)
    bind(walk, hidden->first, hidden->second);
  const auto crossings =
      std::span(walk.graph.crossings).subspan(node.crossing_begin, node.crossing_end - node.crossing_begin);
  for (const Crossing& c : crossings) {
    SlotId slot = walk.slot_of[c.from];
    if (frame.program != nullptr && c.depth > 0 && frame.program->call.output_is_one) {
      crash_at(
          walk, Code::TP5105,
          fmt::format("{} takes one tensor as result, and the module returns several", style_name(walk, frame.rule)),
          frame.rule);
      return;
    }
    if (frame.program != nullptr && c.depth == 0) {
      const bool is_dtensor = layout_of(walk, slot).is_dtensor;
      for (const BoundaryStep& step : frame.fast && !is_dtensor ? frame.program->fast->output : frame.program->output) {
        slot = run_step(walk, step.kind, step.placements, slot, frame.module, frame.rule, true);
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
