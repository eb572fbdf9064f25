// Styles at the boundaries of modules as torch 2.13 runs them: distributed/tensor/parallel/style.py, and
// distribute_module of distributed/tensor/_api.py. A module may have several hooks; they run in the plan's order.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "model/module_kinds.h"
#include "walk/causes.h"
#include "walk/from_local.h"
#include "walk/param_layouts.h"
#include "walk/redistribute_slot.h"
#include "walk/slots.h"
#include "walk/tape.h"
#include "walk/walk_state.h"

namespace tpplan {
namespace {

constexpr Placement kWholeInput{}, kCutInput{.kind = PlacementKind::Shard, .dim = -1};

const StyleRow& style_of(const Walk& walk, RuleId rule) { return *walk.plan.rules[rule].style; }

// The first of a rule's layouts; a style without the option has its own.
Placement first_of(const std::optional<std::vector<Layout>>& layouts, const Placement& standard) {
  return layouts && !layouts->empty() && layouts->front() ? *layouts->front() : standard;
}

// What a call hands over at a boundary: each tensor with its slot, as the hooks change it one after the other.
struct Passing {
  const GraphNode& node;
  std::span<const Crossing> crossings;
  std::vector<SlotId> given;  // by crossing
  std::vector<bool> dropped;  // by crossing: a hook returned less than the call had
  uint32_t positional = 0;    // arguments
};

Passing passing_of(const Walk& walk, const GraphNode& node, bool enters) {
  Passing passing{
      .node = node,
      .crossings =
          std::span(walk.graph.crossings).subspan(node.crossing_begin, node.crossing_end - node.crossing_begin),
      .given = {},
      .dropped = {},
      .positional = node.positional};
  for (const Crossing& c : passing.crossings) {
    // A value that enters twice is the one outside, whatever was made of its first place.
    ValueId outside = c.from;
    for (const Crossing& b : passing.crossings) {
      if (enters && b.to == outside) outside = b.from;
    }
    passing.given.push_back(walk.slot_of[outside]);
  }
  passing.dropped.assign(passing.given.size(), false);
  return passing;
}

// The crossing that is the positional argument or the keyword's itself; kNoId where that is no tensor.
uint32_t find_tensor(const Passing& passing, int position, std::string_view key) {
  for (uint32_t i = 0; i < passing.crossings.size(); ++i) {
    const Crossing& c = passing.crossings[i];
    if (c.depth == 1 && (key.empty() ? c.position == position && c.key.empty() : c.key == key)) return i;
  }
  return kNoId;
}

// DTensor.redistribute as code calls it. Nobody may ask for an open sum; and what is there already goes over the tape
// all the same, because its gradient is brought back to what it was.
SlotId redistribute_called(Walk& walk, SlotId slot, const Placement& to, RuleId rule) {
  const Spread& layout = layout_of(walk, slot);
  const Claim from = layout.claim, wanted = normalised(Claim(walk.axes.size(), to), layout.dims.size());
  if (to.kind == PlacementKind::Partial && from[0] != to) {
    crash_at(walk, Code::TP5105,
             fmt::format("{} asks for {} of a value that is {}, and torch makes no open sum of anything",
                         style_name(walk, rule), to_text(to), to_text(from[0])),
             rule, walk.slots[slot].origin);
    return slot;
  }
  if (from != wanted) return redistribute_slot(walk, slot, wanted, true);
  const SlotId out = derived(walk, slot, layout, kNoRule);
  record_step(walk, TapeKind::Redistribute, slot, out, for_gradient(from), rule);
  return out;
}

// A plain tensor becomes a DTensor of the layout that the rule declares; a DTensor stays what it is. Whether it is
// redistributed is decided between the declared layouts, whatever the tensor is.
SlotId prepare(Walk& walk, SlotId slot, const Placement& declared, const Layout& wanted, bool local, RuleId rule) {
  slot = from_local(walk, slot, Claim(walk.axes.size(), declared), SizeOf::Ranks, 0, rule);
  if (walk.crash == kNoId && wanted && declared != *wanted) slot = redistribute_called(walk, slot, *wanted, rule);
  return local && walk.crash == kNoId ? to_local(walk, slot, 0, rule) : slot;
}

void refuse(Walk& walk, RuleId rule, std::string reason) {
  crash_at(walk, Code::TP5105, fmt::format("{} {}", style_name(walk, rule), reason), rule);
}

// ---- prepare_module_* ----

void prepare_argument(Walk& walk, RuleId rule, Passing& passing, uint32_t at, const Layout& declared,
                      const Layout& wanted, std::string_view what) {
  if (!declared) return;
  if (at == kNoId)
    return refuse(walk, rule,
                  fmt::format("has a layout for {}, which is no tensor in this call: write null there", what));
  const RuleOptions& o = walk.plan.rules[rule].options;
  const bool has_outputs = style_of(walk, rule).output.used;
  const bool local = (has_outputs ? o.use_local_input : o.use_local_output).value_or(false);
  passing.given[at] = prepare(walk, passing.given[at], *declared, wanted, local, rule);
}

void prepare_inputs(Walk& walk, RuleId rule, Passing& passing) {
  const RuleOptions& o = walk.plan.rules[rule].options;
  if (o.input_layouts) {
    if (o.input_layouts->size() != passing.positional)
      return refuse(walk, rule,
                    fmt::format("has {} input layouts, and the module is called with {} positional arguments",
                                o.input_layouts->size(), passing.positional));
    for (size_t i = 0; i < o.input_layouts->size() && walk.crash == kNoId; ++i) {
      const auto& wanted = o.desired_input_layouts;
      prepare_argument(walk, rule, passing, find_tensor(passing, static_cast<int>(i), {}), (*o.input_layouts)[i],
                       wanted && i < wanted->size() ? (*wanted)[i] : Layout{}, fmt::format("argument {}", i));
    }
  }
  for (const auto& [name, declared] : o.input_kwarg_layouts.value_or(KwargLayouts{})) {
    const uint32_t at = find_tensor(passing, -1, name);
    if (at == kNoId || walk.crash != kNoId) continue;  // not given in this call
    Layout wanted;
    for (const auto& [key, layout] : o.desired_input_kwarg_layouts.value_or(KwargLayouts{})) {
      if (key == name) wanted = layout;
    }
    prepare_argument(walk, rule, passing, at, declared, wanted, name);
  }
}

// How many results there are: a tuple's, where the result is one; anything else is one result.
size_t count_results(const Passing& passing) {
  int last = 0;
  for (const Crossing& c : passing.crossings) last = c.depth > 0 && c.key.empty() ? std::max(last, c.position) : last;
  return static_cast<size_t>(last) + 1;
}

void prepare_outputs(Walk& walk, RuleId rule, Passing& passing) {
  const RuleOptions& o = walk.plan.rules[rule].options;
  if (!o.output_layouts) return;
  const size_t results = count_results(passing);
  if (results > o.output_layouts->size())
    return refuse(
        walk, rule,
        fmt::format("has {} output layouts, and the module returns {} values", o.output_layouts->size(), results));
  for (size_t i = 0; i < o.output_layouts->size() && walk.crash == kNoId; ++i) {
    const Layout& declared = (*o.output_layouts)[i];
    if (!declared) continue;
    const auto found = std::find_if(passing.crossings.begin(), passing.crossings.end(), [&](const Crossing& c) {
      return c.depth == 0 ? i == 0 : c.depth == 1 && c.key.empty() && c.position == static_cast<int32_t>(i);
    });
    if (found == passing.crossings.end())
      return refuse(walk, rule, fmt::format("has a layout for result {}, which is no tensor", i));
    SlotId& slot = passing.given[static_cast<size_t>(found - passing.crossings.begin())];
    const auto& wanted = o.desired_output_layouts;
    slot = prepare(walk, slot, *declared, wanted && i < wanted->size() ? (*wanted)[i] : Layout{},
                   o.use_local_output.value_or(style_of(walk, rule).use_local), rule);
  }
}

// ---- styles that distribute a module ----

Placement sequence_of(const Walk& walk, RuleId rule) {
  return {.kind = PlacementKind::Shard, .dim = walk.plan.rules[rule].options.sequence_dim.value_or(1)};
}

bool is_sequence_style(const Walk& walk, RuleId rule) { return style_of(walk, rule).name == kSequenceParallel; }

// The hook takes inputs[0], and what it returns is all that the module gets beside keywords.
void enter_style(Walk& walk, RuleId rule, Passing& passing) {
  const uint32_t first = find_tensor(passing, 0, {});
  if (passing.positional == 0)
    return refuse(walk, rule, "takes the first positional argument, and the module is called with keywords only");
  if (first == kNoId) return refuse(walk, rule, "takes a tensor as first argument, and the module gets something else");
  SlotId& slot = passing.given[first];
  const bool was_dtensor = layout_of(walk, slot).is_dtensor;
  if (is_sequence_style(walk, rule)) {
    const Placement sequence = sequence_of(walk, rule);
    slot = from_local(walk, slot, Claim(walk.axes.size(), sequence), SizeOf::Ranks, 0, rule);
    if (was_dtensor && layout_of(walk, slot).claim[0] != sequence)
      slot = redistribute_called(walk, slot, sequence, rule);
  } else {
    const bool columns = style_of(walk, rule).cut_dim == kDimOut;
    const bool embedding = walk.model.modules[walk.frames.back().module].kind == ModuleKind::Embedding;
    const Placement wanted = columns || embedding ? kWholeInput : kCutInput;
    const Placement declared = first_of(walk.plan.rules[rule].options.input_layouts, columns ? kWholeInput : kCutInput);
    slot = prepare(walk, slot, declared, wanted, false, rule);
  }
  if (passing.positional > 1 && walk.crash == kNoId)
    refuse(walk, rule, fmt::format("hands on the first of {} positional arguments alone", passing.positional));
}

void leave_style(Walk& walk, RuleId rule, Passing& passing) {
  const RuleOptions& o = walk.plan.rules[rule].options;
  const bool sequence = is_sequence_style(walk, rule);
  const bool local = o.use_local_output.value_or(style_of(walk, rule).use_local);
  if (sequence && !local) return;
  const bool is_one = passing.crossings.size() == 1 && passing.crossings[0].depth == 0;
  if (!is_one || !layout_of(walk, passing.given[0]).is_dtensor)
    return refuse(walk, rule,
                  is_one ? "takes the module's result for a DTensor, and it is a plain tensor"
                         : "takes one tensor as result, and the module returns several");
  SlotId& slot = passing.given[0];
  if (!sequence) {
    const bool columns = style_of(walk, rule).cut_dim == kDimOut;
    const Placement wanted = first_of(o.output_layouts, columns ? kCutInput : kWholeInput);
    if (layout_of(walk, slot).claim[0] != wanted) slot = redistribute_called(walk, slot, wanted, rule);
  }
  if (local && walk.crash == kNoId) slot = to_local(walk, slot, 0, rule);
}

// A module sees its own parameters: where a rule has untied them, each name has a tensor of its own.
void show_untied(Walk& walk, ModuleFrame& frame) {
  if (walk.untied.empty()) return;
  const Module& module = walk.model.modules[frame.module];
  for (ParamId id = module.first_param; id < module.first_param + module.param_count; ++id) {
    const auto own = walk.untied.find(id);
    if (own == walk.untied.end()) continue;
    const ValueId value = walk.value_of_param[id];
    frame.hidden.emplace_back(value, walk.slot_of[value]);
    set_slot(walk, value, own->second);
  }
}

// The rules whose hooks a module has, in the plan's order.
std::span<const RuleId> hooks_of(const Walk& walk, const ModuleFrame& frame) {
  return frame.module == kNone ? std::span<const RuleId>{} : std::span(walk.rules_of_module[frame.module]);
}

void hand_over(Walk& walk, const Passing& passing) {
  for (size_t i = 0; i < passing.given.size(); ++i) set_slot(walk, passing.crossings[i].to, passing.given[i]);
}

bool is_distributed(const Walk& walk, ModuleId module) {
  const std::vector<RuleId>& rules = walk.rules_of_module[module];
  return std::any_of(rules.begin(), rules.end(), [&](RuleId rule) { return style_of(walk, rule).once_per_module; });
}

}  // namespace

bool prepare_torch_run(Walk& walk) {
  walk.rules_of_module.assign(walk.model.modules.size(), {});
  for (const BoundaryMatch& match : walk.matches.boundaries) {
    const PlanRule& rule = walk.plan.rules[match.rule];
    const bool walked = std::find(walk.axes.begin(), walk.axes.end(), rule.axis) != walk.axes.end();
    if (rule.style != nullptr && walked) walk.rules_of_module[match.module].push_back(match.rule);
  }
  return true;
}

Spread torch_param_layout(Walk& walk, ParamId id, RuleId& rule) {
  Spread layout = param_layout(walk, id, rule);
  const Param& param = walk.model.params[id];
  if (layout.is_dtensor || !is_distributed(walk, param.module)) return layout;
  const auto shape = shape_of(walk.model, param);
  layout.is_dtensor = true;
  layout.claim = whole_claim(walk);
  layout.claimed_shape.assign(shape.begin(), shape.end());
  return layout;
}

void enter_torch_module(Walk& walk, const GraphNode& node) {
  ModuleFrame frame{.module = walk.model_tables.module_of_string[node.name]};
  frame.no_grad = node.no_grad || (!walk.frames.empty() && walk.frames.back().no_grad);
  const std::span<const RuleId> rules = hooks_of(walk, frame);
  if (!rules.empty()) frame.rule = rules.back();
  walk.frames.push_back(frame);
  Passing passing = passing_of(walk, node, true);
  for (const RuleId rule : rules) {
    walk.frames.back().rule = rule;
    if (style_of(walk, rule).once_per_module)
      enter_style(walk, rule, passing);
    else if (style_of(walk, rule).input.used)
      prepare_inputs(walk, rule, passing);
    if (walk.crash != kNoId) return;
  }
  hand_over(walk, passing);
  if (frame.module != kNone) show_untied(walk, walk.frames.back());
}

void exit_torch_module(Walk& walk, const GraphNode& node) {
  const ModuleFrame frame = walk.frames.back();
  show_hidden(walk, frame);
  Passing passing = passing_of(walk, node, false);
  for (const RuleId rule : hooks_of(walk, frame)) {
    walk.frames.back().rule = rule;
    if (style_of(walk, rule).once_per_module)
      leave_style(walk, rule, passing);
    else if (style_of(walk, rule).output.used)
      prepare_outputs(walk, rule, passing);
    if (walk.crash != kNoId) return;
  }
  hand_over(walk, passing);
  walk.frames.pop_back();
}

}  // namespace tpplan
