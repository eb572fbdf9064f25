// Styles at module boundaries as torch 2.13 runs them: distributed/tensor/parallel/style.py, and distribute_module of
// distributed/tensor/_api.py. A module can have several hooks, which run in plan order.
#include "walk/boundary/torch_boundaries.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "model/module_kinds.h"
#include "walk/run/from_local.h"
#include "walk/run/redistribute_slot.h"
#include "walk/state/boundary_slots.h"
#include "walk/state/causes.h"
#include "walk/state/param_layouts.h"
#include "walk/state/slots.h"
#include "walk/state/tape.h"
#include "walk/state/walk_state.h"

namespace tpplan {
namespace {

const StyleRow& style_of(const Walk& walk, RuleId rule) { return *walk.in.plan.rules[rule].style; }

// Returns the first of a rule's layouts; `standard` if the rule has none.
Placement first_of(const std::optional<std::vector<Layout>>& layouts, const Placement& standard) {
  return layouts && !layouts->empty() && layouts->front() ? *layouts->front() : standard;
}

// The values that a call passes at a boundary. Hooks replace the slots one after the other.
struct Passing {
  const GraphNode& node;
  std::span<const Crossing> crossings;
  std::vector<SlotId> given;  // by crossing
  std::vector<bool> dropped;  // by crossing: a hook returned fewer values than the call had
  uint32_t positional = 0;    // number of positional arguments
};

Passing passing_of(const Walk& walk, const GraphNode& node, bool enters) {
  Passing passing{.node = node,
                  .crossings = crossings_of(walk.in.graph, node),
                  .given = {},
                  .dropped = {},
                  .positional = node.positional};
  for (const Crossing& c : passing.crossings) {
    // If a value is passed twice, `from` of the second crossing is the inner value of the first: use the outer value.
    ValueId outside = c.from;
    for (const Crossing& b : passing.crossings) {
      if (enters && b.to == outside) outside = b.from;
    }
    passing.given.push_back(walk.memory.slot_of[outside]);
  }
  passing.dropped.assign(passing.given.size(), false);
  return passing;
}

// Returns the crossing of a positional or keyword argument; kNoId if the argument is no tensor.
uint32_t find_tensor(const Passing& passing, int position, std::string_view key) {
  for (uint32_t i = 0; i < passing.crossings.size(); ++i) {
    const Crossing& c = passing.crossings[i];
    if (c.depth == 1 && (key.empty() ? c.position == position && c.key.empty() : c.key == key)) return i;
  }
  return kNoId;
}

// Applies DTensor.redistribute as a style calls it. A redistribution to Partial is an error. One that changes nothing
// is on the tape too, because its gradient is redistributed to the placements of the input.
SlotId redistribute_called(Walk& walk, SlotId slot, const Placement& to, RuleId rule) {
  const ValueLayout& layout = layout_of(walk, slot);
  const DeclaredPlacements from = layout.declared, wanted = normalised_placements(
                                                       DeclaredPlacements(walk.in.axes.size(), to), layout.dims.size());
  if (to.kind == PlacementKind::Partial && from[0] != to) {
    crash_at(walk, Code::UnsupportedCall,
             fmt::format("{} requests {} of a value that is {}, but torch cannot redistribute to Partial",
                         style_name(walk, rule), to_text(to), to_text(from[0])),
             rule, walk.memory.slots[slot].origin);
    return slot;
  }
  if (from != wanted) return redistribute_slot(walk, slot, wanted, true);
  const SlotId out = derive_slot(walk, slot, layout, kNoRule);
  append_step(walk, TapeKind::Redistribute, slot, out, gradient_placements(from), rule);
  return out;
}

// Converts a plain tensor to a DTensor with the declared layout; a DTensor is unchanged. The redistribution depends on
// the declared layouts only, not on the tensor.
SlotId prepare(Walk& walk, SlotId slot, const Placement& declared, const Layout& wanted, bool local, RuleId rule) {
  slot = from_local(walk, slot, DeclaredPlacements(walk.in.axes.size(), declared), GlobalSizeSource::Ranks, 0, rule);
  if (walk.out.crash == kNoId && wanted && declared != *wanted) slot = redistribute_called(walk, slot, *wanted, rule);
  return local && walk.out.crash == kNoId ? to_local(walk, slot, 0, rule) : slot;
}

void reject(Walk& walk, RuleId rule, std::string reason) {
  crash_at(walk, Code::UnsupportedCall, fmt::format("{} {}", style_name(walk, rule), reason), rule);
}

// ---- prepare_module_* ----

void prepare_argument(Walk& walk, RuleId rule, Passing& passing, int position, std::string_view key,
                      const Layout& declared, const Layout& wanted) {
  const uint32_t at = find_tensor(passing, position, key);
  if (!declared) return;
  if (at == kNoId)
    return reject(
        walk, rule,
        fmt::format("has a layout for argument {}, which is not a tensor in this call: write null there", position));
  const size_t first = walk.memory.tape.size();
  const RuleOptions& o = walk.in.plan.rules[rule].options;
  const bool has_outputs = style_of(walk, rule).output.used;
  const bool local = (has_outputs ? o.use_local_input : o.use_local_output).value_or(false);
  const auto overridden =
      overridden_layout(walk, rule, DeclaredPlacements(walk.in.axes.size(), *declared), passing.given[at]);
  passing.given[at] = prepare(walk, passing.given[at], *declared, wanted, local, rule);
  add_boundary_slot(walk, rule, false, position, key, first, passing.given[at], overridden);
}

void prepare_inputs(Walk& walk, RuleId rule, Passing& passing) {
  const RuleOptions& o = walk.in.plan.rules[rule].options;
  if (o.input_layouts) {
    if (o.input_layouts->size() != passing.positional)
      return reject(walk, rule,
                    fmt::format("has {} input layouts, but the module is called with {} positional arguments",
                                o.input_layouts->size(), passing.positional));
    for (size_t i = 0; i < o.input_layouts->size() && walk.out.crash == kNoId; ++i) {
      const auto& wanted = o.desired_input_layouts;
      prepare_argument(walk, rule, passing, static_cast<int>(i), {}, (*o.input_layouts)[i],
                       wanted && i < wanted->size() ? (*wanted)[i] : Layout{});
    }
  }
  for (const auto& [name, declared] : o.input_kwarg_layouts.value_or(KwargLayouts{})) {
    if (find_tensor(passing, -1, name) == kNoId || walk.out.crash != kNoId) continue;  // not passed in this call
    Layout wanted;
    for (const auto& [key, layout] : o.desired_input_kwarg_layouts.value_or(KwargLayouts{})) {
      if (key == name) wanted = layout;
    }
    prepare_argument(walk, rule, passing, -1, name, declared, wanted);
  }
}

// Returns the number of results: of a tuple, the number up to its last tensor; otherwise 1.
size_t output_bytes_of_step(const Passing& passing) {
  int last = 0;
  for (const Crossing& c : passing.crossings) last = c.depth > 0 && c.key.empty() ? std::max(last, c.position) : last;
  return static_cast<size_t>(last) + 1;
}

void prepare_outputs(Walk& walk, RuleId rule, Passing& passing) {
  const RuleOptions& o = walk.in.plan.rules[rule].options;
  if (!o.output_layouts) return;
  const size_t results = output_bytes_of_step(passing);
  if (results > o.output_layouts->size())
    return reject(
        walk, rule,
        fmt::format("has {} output layouts, but the module returns {} values", o.output_layouts->size(), results));
  for (size_t i = 0; i < o.output_layouts->size() && walk.out.crash == kNoId; ++i) {
    const Layout& declared = (*o.output_layouts)[i];
    if (!declared) continue;
    const auto found = std::find_if(passing.crossings.begin(), passing.crossings.end(), [&](const Crossing& c) {
      return c.depth == 0 ? i == 0 : c.depth == 1 && c.key.empty() && c.position == static_cast<int32_t>(i);
    });
    if (found == passing.crossings.end())
      return reject(walk, rule, fmt::format("has a layout for result {}, which is not a tensor", i));
    SlotId& slot = passing.given[static_cast<size_t>(found - passing.crossings.begin())];
    const auto& wanted = o.desired_output_layouts;
    const size_t first = walk.memory.tape.size();
    const auto overridden = overridden_layout(walk, rule, DeclaredPlacements(walk.in.axes.size(), *declared), slot);
    slot = prepare(walk, slot, *declared, wanted && i < wanted->size() ? (*wanted)[i] : Layout{},
                   o.use_local_output.value_or(style_of(walk, rule).use_local), rule);
    add_boundary_slot(walk, rule, true, static_cast<int>(i), {}, first, slot, overridden);
  }
}

// ---- styles that distribute a module ----

// Returns the placement of a step. `layouts`: the rule's, which replace the placement of the style.
Placement placement_of(const Walk& walk, RuleId rule, const BoundaryStep& step,
                       const std::optional<std::vector<Layout>>& layouts) {
  const std::optional<int>& dim = walk.in.plan.rules[rule].options.sequence_dim;
  return dim ? Placement{.kind = PlacementKind::Shard, .dim = *dim} : first_of(layouts, step.placements[0]);
}

// Redistributes a value if its placement differs. A plain tensor that has just become a DTensor has the right one.
SlotId redistribute_other(Walk& walk, SlotId slot, const Placement& wanted, RuleId rule) {
  return layout_of(walk, slot).declared[0] == wanted ? slot : redistribute_called(walk, slot, wanted, rule);
}

// The hook receives inputs[0], and what it returns replaces all positional arguments.
void enter_style(Walk& walk, RuleId rule, Passing& passing) {
  const uint32_t first = find_tensor(passing, 0, {});
  if (passing.positional == 0)
    return reject(walk, rule, "expects a positional argument, but the module is called with keywords only");
  if (first == kNoId)
    return reject(walk, rule, "expects a tensor as first argument, but the module gets something else");
  SlotId& slot = passing.given[first];
  const size_t before = walk.memory.tape.size();
  const bool was_dtensor = layout_of(walk, slot).is_dtensor;
  const bool embedding = walk.in.model.modules[walk.memory.frames.back().module].kind == ModuleKind::Embedding;
  const TorchSteps& steps = style_of(walk, rule).torch;
  Placement declared{};
  std::optional<OverriddenLayout> overridden;
  for (const BoundaryStep& step : embedding && !steps.ids.empty() ? steps.ids : steps.input) {
    if (walk.out.crash != kNoId) break;
    if (step.kind == StepKind::FromLocal) {
      const auto& layouts = walk.in.plan.rules[rule].options.input_layouts;
      declared = placement_of(walk, rule, step, layouts);
      if (layouts) overridden = overridden_layout(walk, rule, DeclaredPlacements(walk.in.axes.size(), declared), slot);
      slot =
          from_local(walk, slot, DeclaredPlacements(walk.in.axes.size(), declared), GlobalSizeSource::Ranks, 0, rule);
      continue;
    }
    const Placement wanted = placement_of(walk, rule, step, {});
    const bool is_other = step.kind == StepKind::RedistributeOther;
    if (is_other && was_dtensor) slot = redistribute_other(walk, slot, wanted, rule);
    if (!is_other && declared != wanted) slot = redistribute_called(walk, slot, wanted, rule);
  }
  add_boundary_slot(walk, rule, false, 0, {}, before, slot, overridden);
  if (passing.positional > 1 && walk.out.crash == kNoId)
    reject(walk, rule,
           fmt::format("passes only the first of {} positional arguments to the module", passing.positional));
}

void leave_style(Walk& walk, RuleId rule, Passing& passing) {
  const RuleOptions& o = walk.in.plan.rules[rule].options;
  const Steps steps = style_of(walk, rule).torch.output;
  const bool local = o.use_local_output.value_or(style_of(walk, rule).use_local);
  const size_t first = walk.memory.tape.size();
  if (!local && !has_step(steps, StepKind::RedistributeOther)) return;
  const bool is_one = passing.crossings.size() == 1 && passing.crossings[0].depth == 0;
  if (!is_one || !layout_of(walk, passing.given[0]).is_dtensor)
    return reject(walk, rule,
                  is_one ? "treats the module's result as a DTensor, but it is a plain tensor"
                         : "expects one tensor as result, but the module returns several");
  SlotId& slot = passing.given[0];
  for (const BoundaryStep& step : steps) {
    if (walk.out.crash != kNoId) break;
    if (step.kind == StepKind::RedistributeOther)
      slot = redistribute_other(walk, slot, placement_of(walk, rule, step, o.output_layouts), rule);
    else if (local)
      slot = to_local(walk, slot, 0, rule);
  }
  add_boundary_slot(walk, rule, true, 0, {}, first, slot);
}

// Replaces tied parameters by the separate tensors of their names if a rule has untied them.
void show_untied(Walk& walk, ModuleFrame& frame) {
  if (walk.memory.untied.empty()) return;
  const Module& module = walk.in.model.modules[frame.module];
  for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id) {
    const auto untied = walk.memory.untied.find(id);
    if (untied == walk.memory.untied.end()) continue;
    const ValueId value = walk.memory.value_of_param[id];
    frame.hidden.emplace_back(value, walk.memory.slot_of[value]);
    set_slot(walk, value, untied->second);
  }
}

// Returns the rules whose hooks the module has, in plan order.
std::span<const RuleId> hooks_of(const Walk& walk, const ModuleFrame& frame) {
  return frame.module == kNone ? std::span<const RuleId>{} : std::span(walk.memory.rules_of_module[frame.module]);
}

void pass_values(Walk& walk, const Passing& passing) {
  for (size_t i = 0; i < passing.given.size(); ++i) set_slot(walk, passing.crossings[i].to, passing.given[i]);
}

bool is_distributed(const Walk& walk, ModuleId module) {
  const std::vector<RuleId>& rules = walk.memory.rules_of_module[module];
  return std::any_of(rules.begin(), rules.end(), [&](RuleId rule) { return style_of(walk, rule).once_per_module; });
}

}  // namespace

bool prepare_torch_run(Walk& walk) {
  walk.memory.rules_of_module.assign(walk.in.model.modules.size(), {});
  for (const BoundaryMatch& match : walk.in.matches.boundaries) {
    const PlanRule& rule = walk.in.plan.rules[match.rule];
    const bool walked = std::find(walk.in.axes.begin(), walk.in.axes.end(), rule.axis) != walk.in.axes.end();
    if (rule.style != nullptr && walked) walk.memory.rules_of_module[match.module].push_back(match.rule);
  }
  return true;
}

ValueLayout torch_param_layout(Walk& walk, ParamId id, RuleId& rule) {
  ValueLayout layout = param_layout(walk, id, rule);
  const Param& param = walk.in.model.params[id];
  if (layout.is_dtensor || !is_distributed(walk, param.module)) return layout;
  const auto shape = shape_of(walk.in.model, param);
  layout.is_dtensor = true;
  layout.declared = replicated_placements(walk);
  layout.declared_shape.assign(shape.begin(), shape.end());
  return layout;
}

void enter_torch_module(Walk& walk, const GraphNode& node) {
  ModuleFrame frame{.module = walk.in.model_tables.module_of_string[node.name]};
  frame.no_grad = node.no_grad || (!walk.memory.frames.empty() && walk.memory.frames.back().no_grad);
  const std::span<const RuleId> rules = hooks_of(walk, frame);
  if (!rules.empty()) frame.rule = rules.back();
  walk.memory.frames.push_back(frame);
  Passing passing = passing_of(walk, node, true);
  for (const RuleId rule : rules) {
    walk.memory.frames.back().rule = rule;
    if (style_of(walk, rule).once_per_module)
      enter_style(walk, rule, passing);
    else if (style_of(walk, rule).input.used)
      prepare_inputs(walk, rule, passing);
    if (walk.out.crash != kNoId) return;
  }
  pass_values(walk, passing);
  if (frame.module != kNone) show_untied(walk, walk.memory.frames.back());
}

void exit_torch_module(Walk& walk, const GraphNode& node) {
  const ModuleFrame frame = walk.memory.frames.back();
  restore_replaced_slots(walk, frame);
  Passing passing = passing_of(walk, node, false);
  for (const RuleId rule : hooks_of(walk, frame)) {
    walk.memory.frames.back().rule = rule;
    if (style_of(walk, rule).once_per_module)
      leave_style(walk, rule, passing);
    else if (style_of(walk, rule).output.used)
      prepare_outputs(walk, rule, passing);
    if (walk.out.crash != kNoId) return;
  }
  pass_values(walk, passing);
  walk.memory.frames.pop_back();
}

}  // namespace tpplan
