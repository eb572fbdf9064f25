#include "walk/walk_graph.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "infer/grad_reduce.h"
#include "walk/backward.h"
#include "walk/example.h"
#include "walk/judge_loss.h"
#include "walk/kept_walk.h"
#include "walk/list_operations.h"
#include "walk/node_args.h"
#include "walk/operations.h"
#include "walk/param_layouts.h"
#include "walk/repeat_layers.h"
#include "walk/report_cause.h"
#include "walk/slots.h"
#include "walk/trace_step.h"
#include "walk/walk_state.h"

namespace tpplan {
namespace {

// torch registers a new parameter for each name of a tie that a rule reaches: they are one tensor no more.
void untie(Walk& walk, const Tie& tie, ValueId value) {
  std::vector<Slot> slots;
  bool untied = false;
  for (const ParamId id : tie.params) {
    Slot slot = walk.slots[walk.slot_of[value]];
    slot.origin = kNoRule;
    const Spread layout = walk.runtime.param_layout(walk, id, slot.origin);
    untied = untied || layout.is_dtensor;
    slot.layout = intern(walk.table, layout);
    slots.push_back(slot);
  }
  for (size_t i = 0; i < slots.size() && untied; ++i) walk.untied[tie.params[i]] = new_slot(walk, slots[i]);
}

// By leaf, how many leaves before it the one of the layer before stands; 0: it is of no such layer.
std::vector<uint32_t> turns_of_leaves(const Walk& walk) {
  std::vector<uint32_t> turns(walk.graph.leaves.size(), 0);
  for (const StackWalk& run : walk.stacks) {
    const LayerStack& stack = *run.stack;
    std::fill_n(turns.begin() + stack.leaf + stack.leaves, (stack.count - 1) * stack.leaves, stack.leaves);
  }
  return turns;
}

// True where param_layout looks at the same of both.
bool are_cut_alike(const Walk& walk, ParamId a, ParamId b) {
  const Param &x = walk.model.params[a], &y = walk.model.params[b];
  const auto of_x = shape_of(walk.model, x), of_y = shape_of(walk.model, y);
  return walk.shardings.params[a].sharding == walk.shardings.params[b].sharding &&
         walk.matches.params[a].rule == walk.matches.params[b].rule &&
         walk.rule_of_module[x.module] == walk.rule_of_module[y.module] &&
         std::equal(of_x.begin(), of_x.end(), of_y.begin(), of_y.end());
}

void bind_leaves(Walk& walk) {
  const bool is_common = walk.runtime.param_layout == param_layout;
  const std::vector<uint32_t> turns = turns_of_leaves(walk);
  for (size_t i = 0; i < walk.graph.leaves.size(); ++i) {
    const GraphLeaf& leaf = walk.graph.leaves[i];
    const GraphValue& value = walk.graph.values[leaf.value];
    const ParamId here = walk.model_tables.param_of_leaf[i];
    const ParamId before = turns[i] == 0 ? kNone : walk.model_tables.param_of_leaf[i - turns[i]];
    if (is_common && here != kNone && before != kNone && are_cut_alike(walk, here, before)) {
      Slot slot = walk.slots[i - turns[i]];  // slots of leaves are the first
      slot.value = leaf.value;
      slot.requires_grad = value.requires_grad && !walk.infer;
      slot.param = here;
      if (slot.held != kNone) slot.held = here;
      walk.value_of_param[here] = leaf.value;
      set_slot(walk, leaf.value, new_slot(walk, slot));
      continue;
    }
    Slot slot{.layout = walk.tables.whole_of_shape[value.shape],
              .value = leaf.value,
              .requires_grad = value.requires_grad && !walk.infer,
              .is_leaf = true};
    if (leaf.kind == LeafKind::Param) {
      const ParamId param = walk.model_tables.param_of_leaf[i];
      if (param != kNone) {
        walk.value_of_param[param] = leaf.value;
        slot.param = param;
        Spread layout = walk.runtime.param_layout(walk, param, slot.origin);
        if (slot.origin == kNoRule && layout.is_dtensor)
          slot.origin = walk.rule_of_module[walk.model.params[param].module];
        if (walk.runtime.shows_params) {
          slot.held = param;
          layout.is_dtensor = false;
          layout.claim.clear();
          layout.claimed_shape.clear();
        }
        slot.layout = intern(walk.table, layout);
      }
    }
    set_slot(walk, leaf.value, new_slot(walk, slot));
    list_leaf(walk, leaf);
  }
  // The other names of a tied tensor are the same value.
  for (const Tie& tie : walk.model.ties) {
    ValueId value = kNoId;
    for (const ParamId id : tie.params) value = walk.value_of_param[id] != kNoId ? walk.value_of_param[id] : value;
    for (const ParamId id : tie.params) walk.value_of_param[id] = value;
    if (walk.runtime.unties && value != kNoId) untie(walk, tie, value);
  }
}

void judge_output(Walk& walk) {
  for (const ValueId output : walk.graph.outputs) {
    const SlotId slot = walk.slot_of[output];
    const Spread& layout = layout_of(walk, slot);
    if (layout.wrong) {
      if (walk.slots[slot].cause != kNoId) report_cause(walk, walk.causes[walk.slots[slot].cause], "output");
      return;
    }
    if (!layout.is_dtensor && walk.loss != nullptr && output == loss_value(walk)) continue;  // judge_loss
    Spread claimed;
    if (layout.is_dtensor) {
      claimed = placed_layout(walk.table, shape_of(walk, slot), layout.claim);
      if (claimed.dims == layout.dims && claimed.partial == layout.partial) continue;
    } else if (layout.partial == 0 && is_all_whole(walk.table, layout)) {
      continue;
    }
    report_cause(walk,
                 {.code = Code::TP5110,
                  .reason = fmt::format("the model's result is {} on every rank: {}",
                                        layout.partial != 0 ? "a term of a sum that nobody closes" : "a piece",
                                        layout_text(walk.table, layout)),
                  .op = {},
                  .module = kNone,
                  .rule = walk.slots[slot].origin,
                  .layouts = {},
                  .example = walk.examples != nullptr ? result_example(walk, layout) : Example{}},
                 "output");
    return;
  }
}

bool output_is_right(const Walk& walk, bool loss_is_right) {
  return std::all_of(walk.graph.outputs.begin(), walk.graph.outputs.end(), [&](ValueId output) {
    const Spread& layout = layout_of(walk, walk.slot_of[output]);
    if (!layout.wrong && walk.loss != nullptr && output == loss_value(walk)) return loss_is_right;
    return !layout.wrong && (layout.is_dtensor || (layout.partial == 0 && is_all_whole(walk.table, layout)));
  });
}

// More ranks than this are not looked at together: each axis is walked by itself.
constexpr int64_t kMostRanksTogether = 4096;

// True when some rule cuts or acts over the axis.
bool is_used(const TpPlan& plan, const ShardingTable& shardings, AxisId axis) {
  return std::any_of(plan.rules.begin(), plan.rules.end(),
                     [axis](const PlanRule& rule) { return rule.style != nullptr && rule.axis == axis; }) ||
         std::any_of(shardings.shardings.begin(), shardings.shardings.end(),
                     [axis](const Sharding& sharding) { return uses_axis(sharding.spec, axis); });
}

// What stands by id of the graph, the plan and the model, before the first operation.
void begin_walk(Walk& walk) {
  std::vector<size_t> sizes;
  for (const AxisId axis : walk.axes) sizes.push_back(static_cast<size_t>(walk.plan.mesh.axes[axis].size));
  use_tables(walk.tables, walk.graph, std::move(sizes));
  walk.ranks = walk.table.maps.ranks;
  walk.slots.clear();
  walk.tape.clear();
  walk.tape_slots.clear();
  walk.segments.clear();
  walk.slot_of.assign(walk.graph.values.size(), kNoId);
  walk.layout_of.assign(walk.graph.values.size(), 0);
  walk.size_numbers.assign(walk.graph.sizes.size(), kNoId);
  walk.rule_of_module.assign(walk.model.modules.size(), kNoRule);
  for (const BoundaryMatch& match : walk.matches.boundaries) {
    const AxisId axis = walk.plan.rules[match.rule].axis;
    if (std::find(walk.axes.begin(), walk.axes.end(), axis) != walk.axes.end())
      walk.rule_of_module[match.module] = match.rule;
  }
  walk.value_of_param.assign(walk.model.params.size(), kNoId);
  walk.sum_rule.assign(walk.graph.values.size(), kNoRule);
  if (walk.listing != nullptr || walk.examples != nullptr) return;  // they want each layer
  for (const LayerStack& stack : walk.model_tables.stacks) walk.stacks.push_back({.stack = &stack});
}

// Stops where the run would end.
void walk_forward(Walk& walk) {
  list_axes(walk);
  bind_leaves(walk);
  if (!walk.untied.empty()) walk.stacks.clear();
  for (uint32_t i = 0; i < walk.graph.nodes.size() && walk.crash == kNoId; ++i) {
    if (!walk.stacks.empty()) i = repeat_layers(walk, i);
    if (i == walk.graph.nodes.size()) break;
    const GraphNode& node = walk.graph.nodes[i];
    if (node.kind == NodeKind::Enter) trace_boundary(walk, node, i);
    if (node.kind == NodeKind::Enter)
      walk.runtime.enter(walk, node);
    else if (node.kind == NodeKind::Exit)
      walk.runtime.exit(walk, node);
    else
      run_node(walk, node, i);
    if (node.kind == NodeKind::Exit) trace_boundary(walk, node, i);
    if (node.kind != NodeKind::Op && walk.crash == kNoId) list_boundary(walk, node);
    if (walk.crash == kNoId || walk.examples == nullptr || walk.causes[walk.crash].unknown) continue;
    Cause& cause = walk.causes[walk.crash];
    if (cause.example.rows.empty()) cause.example = crash_example(walk, node, cause.reason);
  }
}

void walk_axes(Walk& walk, Forecast& forecast) {
  begin_walk(walk);
  if (walk.runtime.prepare != nullptr && !walk.runtime.prepare(walk)) {
    forecast.gap = ForecastGap::Broken;
    return;
  }
  walk_forward(walk);
  if (walk.crash != kNoId) {
    report_cause(walk, walk.causes[walk.crash], "forward");
    forecast.gap = walk.causes[walk.crash].unknown ? ForecastGap::Undescribed : ForecastGap::Broken;
    forecast.broken_at = walk.causes[walk.crash].module;
    forecast.calls.clear();
    return;
  }
  finish_trace(walk);
  judge_output(walk);
  bool loss_is_right = true;
  if (walk.loss != nullptr && !layout_of(walk, walk.slot_of[loss_value(walk)]).wrong)
    loss_is_right = judge_loss(walk, !walk.infer);
  if (!walk.infer) walk_backward(walk, output_is_right(walk, loss_is_right));
  forecast.repeated += walk.repeated;
  forecast.repeated_back += walk.repeated_back;
  if (forecast.gap != ForecastGap::None) return;
  forecast.calls.insert(forecast.calls.end(), std::move_iterator(walk.calls.begin()),
                        std::move_iterator(walk.calls.end()));
}

// Nothing but the memory.
StepTrace begin_trace(StepTrace used) {
  used.is_there = false;
  used.values.clear();
  used.shapes.clear();
  used.sizes.clear();
  used.ops.clear();
  used.slots.clear();
  used.outputs.clear();
  used.alike.clear();
  return used;
}

struct GapRow {
  std::string_view text, remedy, unchecked;
};

// By ForecastGap.
constexpr GapRow kGaps[] = {
    {"", "", ""},
    {"an error was found before the operations were walked", "mend what is found, and ask again", ""},
    {"the model file has no operations",
     "models of torch and transformers are written with theirs: python -m tpplan.export --transformers NAME --batch B "
     "--sequence S -o model.json",
     "operations, gradients and collectives"},
    {"a step of this plan would fail", "mend what is found, and ask again", ""},
    {"the model has an operation that no rule describes", "`tpplan explain TP5114` says how to describe it",
     "what uses its result, gradients and collectives"},
    {"JAX and Keras run whole arrays, so that a cut changes no value of them, and what it costs is for their compiler "
     "to choose (GSPMD)",
     "what the compiler made stands in jax.jit(f).lower(...).compile().as_text()",
     "operations, gradients and collectives"},
    {"they were recorded as another runtime runs them", "leave `--runtime` out, or record them as this one does",
     "operations, gradients and collectives"},
    {"the operations are those of a forward pass under jax.shard_map", "`--mode infer` says that no more is meant",
     "gradients and collectives of the way back"},
};

static_assert(std::size(kGaps) == static_cast<size_t>(ForecastGap::Forward) + 1);

}  // namespace

std::string_view to_text(ForecastGap gap) { return kGaps[static_cast<size_t>(gap)].text; }
std::string_view remedy_of(ForecastGap gap) { return kGaps[static_cast<size_t>(gap)].remedy; }
std::string_view unchecked_by(ForecastGap gap) { return kGaps[static_cast<size_t>(gap)].unchecked; }

std::string unchecked_text(ForecastGap gap) {
  if (unchecked_by(gap).empty()) return {};
  return fmt::format("{} were not checked: {}; {}", unchecked_by(gap), to_text(gap), remedy_of(gap));
}

Forecast walk_graph(const TpPlan& plan, const ModelGraph& model, const MatchTable& matches,
                    const ShardingTable& shardings, const BoundaryTable& boundaries, const WalkOptions& options,
                    Diagnostics& diagnostics) {
  const ForecastGap unknown = model.framework == Framework::Torch ? ForecastGap::NoGraph : ForecastGap::Global;
  Forecast forecast{.gap = unknown, .calls = {}, .broken_at = kNone, .listing = {}};
  if (!model.operations.is_there) return forecast;
  ModelTables own_tables;
  if (options.tables == nullptr) own_tables = make_model_tables(model);
  const ModelTables& tables = options.tables == nullptr ? own_tables : *options.tables;
  const bool is_local = tables.is_shard_map;
  const PlanRuntime asked = options.runtime.value_or(is_local ? PlanRuntime::ShardMap : plan.dialect->runtime);
  if (is_local != (asked == PlanRuntime::ShardMap)) {
    forecast.gap = is_local ? ForecastGap::Global : ForecastGap::Elsewhere;
    return forecast;
  }
  const RuntimeRow& runtime = runtime_row(asked);
  forecast.gap = ForecastGap::None;
  std::vector<AxisId> axes;
  for (size_t at = 0; at < plan.mesh.axes.size(); ++at) {
    const auto axis = static_cast<AxisId>(at);
    const bool counts = runtime.all_axes || (is_used(plan, shardings, axis) && !is_data_axis(plan, axis));
    if (counts && plan.mesh.axes[axis].size > 1) axes.push_back(axis);
  }
  int64_t ranks = 1;
  for (const AxisId axis : axes) ranks = std::min(kMostRanksTogether + 1, ranks * plan.mesh.axes[axis].size);
  std::vector<AxisId> data_axes = data_axes_of(plan);
  std::erase_if(data_axes, [&](AxisId axis) { return plan.mesh.axes[axis].size == 1; });
  if (runtime.all_axes) data_axes.clear();
  if (!runtime.has_data_axes) forecast.unlisted = std::exchange(data_axes, {});
  KeptWalk own_kept;
  KeptWalk& kept = options.kept == nullptr ? own_kept : *options.kept;
  WalkMemory& memory = kept.memory;
  if (options.trace) forecast.trace = begin_trace(std::move(memory.trace));
  const std::optional<Loss> loss = resolved_loss(plan, data_gradients(runtime.runtime));
  const size_t at_once =
      runtime.one_axis || ranks > kMostRanksTogether ? std::min<size_t>(1, axes.size()) : axes.size();
  // Where no axis cuts anything there is nothing to find, but what runs: the model as it is, whoever runs it.
  Diagnostics nobodys;
  const bool alone = options.trace && !is_local && axes.empty() && data_axes.empty();
  const RuntimeRow& walked = alone ? runtime_row(PlanRuntime::Tpplan) : runtime;
  for (size_t i = 0; i < axes.size() || !data_axes.empty() || alone; i += at_once) {
    const std::span<const AxisId> together = std::span(axes).subspan(i, at_once);
    Walk walk{.plan = plan,
              .model = model,
              .graph = model.operations,
              .matches = matches,
              .shardings = shardings,
              .boundaries = boundaries,
              .diagnostics = alone ? nobodys : diagnostics,
              .axes = {together.begin(), together.end()},
              .data_axes = std::exchange(data_axes, {}),  // once, where each axis is walked by itself
              .runtime = walked,
              .infer = options.infer,
              .loss = loss && !is_local && static_cast<size_t>(loss->output) < model.operations.outputs.size()
                          ? &*loss
                          : nullptr,
              .model_tables = tables,
              .tables = kept.tables,
              .table = kept.tables.table,
              .memory = memory,
              .slots = memory.slots,
              .slot_of = memory.slot_of,
              .layout_of = memory.layout_of,
              .size_numbers = memory.size_numbers,
              .rule_of_module = memory.rule_of_module,
              .value_of_param = memory.value_of_param,
              .sum_rule = memory.sum_rule,
              .tape = memory.tape,
              .tape_slots = memory.tape_slots,
              .segments = memory.segments,
              .listing = options.listing ? &forecast.listing : nullptr,
              .examples = options.examples ? &forecast.examples : nullptr,
              .trace = options.trace && !is_local && at_once == axes.size() ? &forecast.trace : nullptr};
    walk_axes(walk, forecast);
    if (alone) break;
  }
  if (alone) forecast.gap = ForecastGap::None;
  if (is_local && forecast.gap == ForecastGap::None && !options.infer) forecast.gap = ForecastGap::Forward;
  return forecast;
}

}  // namespace tpplan
